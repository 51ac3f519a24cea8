// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/csv"
	"io"
	"math"
	"strconv"

	"github.com/wepe-go/wepe/report"
)

// writeCSV writes evaluations as a table with a header. Values that are not finite are empty.
func writeCSV(w io.Writer, evals []report.Eval) error {
	out := csv.NewWriter(w)
	rows := [][]string{{"step", "epoch", "train_loss", "validation_loss", "validation_top1", "validation_top5",
		"validation_images", "learning_rate", "images_per_second"}}
	for _, e := range evals {
		row := []string{strconv.Itoa(e.Step)}
		for i, value := range []report.JSONFloat{e.Epoch, e.TrainLoss, e.Loss, e.Top1, e.Top5, report.JSONFloat(e.Images),
			e.LearningRate, e.ImagesPerSecond} {
			v := float64(value)
			if math.IsNaN(v) || math.IsInf(v, 0) || e.Images == 0 && i >= 2 && i <= 4 {
				row = append(row, "")
				continue
			}
			row = append(row, strconv.FormatFloat(v, 'g', -1, 64))
		}
		rows = append(rows, row)
	}
	return out.WriteAll(rows)
}
