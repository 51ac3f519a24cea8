// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"encoding/csv"
	"hash/crc32"
	"io"
	"math"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"

	"github.com/wepe-go/wepe/report"
)

// writeEvents writes evaluations as a TensorBoard event file: scalars loss/train, loss/<split>, top1/<split>,
// top5/<split>, learning_rate and images_per_second by step, those that are finite. More rows make a longer file
// with the same beginning, so TensorBoard follows a file that is written again. Rows have no time, so the relative
// axis is empty.
//
// An event file is a sequence of TFRecords (length, its checksum, data, its checksum), each a message tensorflow.Event
// (tensorflow/core/util/event.proto: step 2, file_version 3, summary 5; summary.proto: value 1, tag 1, simple_value 2).
func writeEvents(w io.Writer, evals []report.Eval) error {
	version := protowire.AppendTag(nil, 3, protowire.BytesType)
	if err := writeRecord(w, protowire.AppendString(version, "brain.Event:2")); err != nil {
		return err
	}
	for _, e := range evals {
		var summary []byte
		add := func(tag string, value report.JSONFloat) {
			if v := float64(value); math.IsNaN(v) || math.IsInf(v, 0) {
				return
			}
			field := protowire.AppendString(protowire.AppendTag(nil, 1, protowire.BytesType), tag)
			field = protowire.AppendTag(field, 2, protowire.Fixed32Type)
			field = protowire.AppendFixed32(field, math.Float32bits(float32(value)))
			summary = protowire.AppendBytes(protowire.AppendTag(summary, 1, protowire.BytesType), field)
		}
		add("loss/train", e.TrainLoss)
		if e.Images > 0 {
			add("loss/"+e.Split, e.Loss)
			add("top1/"+e.Split, e.Top1)
			add("top5/"+e.Split, e.Top5)
		}
		add("learning_rate", e.LearningRate)
		add("images_per_second", e.ImagesPerSecond)
		event := protowire.AppendVarint(protowire.AppendTag(nil, 2, protowire.VarintType), uint64(e.Step))
		event = protowire.AppendBytes(protowire.AppendTag(event, 5, protowire.BytesType), summary)
		if err := writeRecord(w, event); err != nil {
			return err
		}
	}
	return nil
}

// writeRecord writes a TFRecord.
func writeRecord(w io.Writer, data []byte) error {
	record := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
	record = binary.LittleEndian.AppendUint32(record, maskedCRC(record))
	record = append(record, data...)
	_, err := w.Write(binary.LittleEndian.AppendUint32(record, maskedCRC(data)))
	return err
}

// maskedCRC is TFRecord's checksum: CRC-32C, rotated by 15 bits, plus a constant.
func maskedCRC(data []byte) uint32 {
	crc := crc32.Checksum(data, crc32.MakeTable(crc32.Castagnoli))
	return (crc>>15 | crc<<17) + 0xa282ead8
}

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
