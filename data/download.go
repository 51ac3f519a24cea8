// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package data

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/wepe-go/wepe/internal/fetch"
)

// cifar100Remote is the author's own copy; the checksum is the one TensorFlow Datasets and GoMLX hold it to.
var cifar100Remote = fetch.File{
	URL:   "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
	Hash:  "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
	Limit: 256 << 20,
}

// DownloadCIFAR100 fetches the official archive (169 MB) into a directory where CIFAR100 then finds it, and returns
// its path. Nothing is fetched when it is there already. A broken transfer is resumed, now or by the next call; what
// is there under the final name has the right checksum. Without a network it fails within seconds. progress, which
// may be nil, is called with the bytes so far and the total, -1 when the server does not say.
func DownloadCIFAR100(ctx context.Context, dir string, progress func(done, total int64)) (string, error) {
	client := fetch.NewClient(nil, "")
	defer client.Close()
	file := filepath.Join(dir, cifarArchive)
	err := client.Fetch(ctx, cifar100Remote, file, progress)
	if network := (*fetch.NetworkError)(nil); errors.As(err, &network) {
		err = fmt.Errorf("%w (the file can also be fetched elsewhere and put into %s by hand)", err, dir)
	}
	if err != nil {
		return "", fmt.Errorf("data: downloading %s: %w", cifar100Remote.URL, err)
	}
	return file, nil
}
