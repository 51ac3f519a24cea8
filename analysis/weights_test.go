// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package analysis

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// Two layers of three heads with 16² or 26² weights of four bytes.
func TestTheMemoryOfAttentionWeightsIsLogged(t *testing.T) {
	gomlxtest.OnGo(t)
	for want, side := range map[string]int{"0.0059": 12, "0.015": 20} {
		var log bytes.Buffer
		c := Comparison{Backend: gomlxtest.Backend(), Images: testImages(2),
			Logger: slog.New(slog.NewTextHandler(&log, nil))}
		path := trained(t, "none", 1, func(r *finetune.Recipe) { r.Augment.Size = [2]int{side, 20} })
		s := gomlxtest.Must(c.open(Model{Name: "a", Path: path}))(t)
		gomlxtest.Must(s.attended())(t)
		s.model.Finalize()
		if !strings.Contains(log.String(), "attention weights: "+want+" MiB per image;") {
			t.Errorf("%d rows of pixels: logged %q, want %s MiB", side, &log, want)
		}
	}
}
