// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"testing"
	"time"

	"github.com/wepe-go/wepe/internal/campaign"
	"github.com/wepe-go/wepe/vit"
)

// Limits of importing ViT-B on two cores.
const (
	maxImportTime   = 2 * time.Second
	maxImportMemory = 1.2 // of the file's bytes, the model itself included
)

// BenchmarkImport imports a made-up ViT-B/16, 86.6M float32 numbers, and fails beyond the limits: the fastest import,
// as a busy machine says little, and what was allocated in all, an upper bound of the memory held, in multiples of the
// file. Reading includes every transpose and the SHA-256.
func BenchmarkImport(b *testing.B) {
	c, err := vit.Variant("B/16")
	if err != nil {
		b.Fatal(err)
	}
	c.Position = "learned"
	for _, n := range []naming{hf, timm, jax} {
		b.Run(n.format, func(b *testing.B) {
			config := `{"model_type":"vit","hidden_act":"gelu","image_size":224,"num_attention_heads":12}`
			if n.format != FormatHF {
				config = configOf(n, c)
			}
			file := put(b, n, made(n, c), config)
			options := ImportOptions{AssumeSquare: n.format != FormatHF}
			b.SetBytes(4 * int64(c.Parameters()))
			fastest, most := time.Hour, uint64(0)
			for b.Loop() {
				used, took := campaign.Cost(func() {
					if _, err := Import(file, options); err != nil {
						b.Fatal(err)
					}
				})
				fastest, most = min(fastest, took), max(most, used)
			}
			allocated := float64(most) / float64(4*c.Parameters())
			b.ReportMetric(allocated, "allocated/file")
			b.ReportMetric(fastest.Seconds(), "fastest-s")
			if fastest > maxImportTime || allocated > maxImportMemory {
				b.Errorf("the fastest import took %v and allocated %.2f times the file, want at most %v and %g", fastest,
					allocated, maxImportTime, maxImportMemory)
			}
		})
	}
}
