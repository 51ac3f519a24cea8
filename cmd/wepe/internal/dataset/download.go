// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"github.com/wepe-go/wepe/internal/fetch"
)

// cifar100 is the author's own copy; the checksum equals the one in TensorFlow Datasets and GoMLX.
var cifar100 = fetch.File{
	URL:   "https://www.cs.toronto.edu/~kriz/cifar-100-binary.tar.gz",
	Hash:  "58a81ae192c23a4be8b1804d68e518ed807d710a4eb253b1f2a199162a40d8ec",
	Limit: 256 << 20,
}

// downloadCIFAR100 downloads the official archive (169 MB) into a directory for data.CIFAR100. An existing file is not
// downloaded again. An interrupted transfer is resumed, in this call or the next; the checksum is verified before the
// file gets its final name. Without a network it fails within seconds. progress is called with the bytes so far and the
// total, -1 if unknown.
func downloadCIFAR100(ctx context.Context, dir string, progress func(done, total int64)) error {
	client := fetch.NewClient(nil, "")
	defer client.Close()
	err := client.Fetch(ctx, cifar100, filepath.Join(dir, "cifar-100-binary.tar.gz"), progress)
	if errors.As(err, new(*fetch.NetworkError)) {
		err = fmt.Errorf("%w (the file can also be fetched elsewhere and put into %s by hand)", err, dir)
	}
	if err != nil {
		return fmt.Errorf("downloading %s: %w", cifar100.URL, err)
	}
	return nil
}
