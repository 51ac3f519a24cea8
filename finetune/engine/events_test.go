// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/testing/protopack"

	"github.com/wepe-go/wepe/report"
)

// The first record of every event file that TensorFlow writes has 24 bytes; the checksum of that length is a3 7f 4b 22.
func TestEvents_ChecksumIsTensorFlows(t *testing.T) {
	length := binary.LittleEndian.AppendUint64(nil, 24)
	if got := binary.LittleEndian.AppendUint32(nil, maskedCRC(length)); !bytes.Equal(got, []byte{0xa3, 0x7f, 0x4b, 0x22}) {
		t.Errorf("%x, want a37f4b22", got)
	}
}

func TestProgress_SaysWhatTheValidationMeasured(t *testing.T) {
	ap := func(v report.JSONFloat) map[string]report.JSONFloat { return map[string]report.JSONFloat{"AP": v} }
	for want, e := range map[string]report.Eval{
		"":                                    {},
		"validation top-1 25.0 %":             {Metrics: report.Metrics{Top1: 0.25, Images: 7}},
		"validation box AP 50.0  mask AP 0.0": {DetectionMetrics: report.DetectionMetrics{Boxes: ap(0.5), Masks: ap(0)}},
		"validation box AP –  0.43 images/s":  {DetectionMetrics: report.DetectionMetrics{Boxes: ap(-1)}},
		"validation box AP –  mask AP –":      {DetectionMetrics: report.DetectionMetrics{Boxes: ap(-1), Masks: ap(-1)}},
	} {
		if got := (Progress{Step: 3, Steps: 5, ImagesPerSecond: 0.43, Eval: &e}).String(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
	for loss, shown := range map[float64]bool{0: false, 0.7: true} { // 0: none was read
		if got := (Progress{Step: 3, Steps: 5, Loss: loss}).String(); strings.Contains(got, "loss 0.7") != shown {
			t.Errorf("loss %g: %s", loss, got)
		}
	}
}

func TestEvents_HaveTheFiniteScalarsOfEveryRow(t *testing.T) {
	evals := []report.Eval{
		{Step: 0, Split: report.Validation, Metrics: report.Metrics{Loss: 3.5, Top1: 0.25, Top5: 0.5, Images: 7},
			TrainLoss: report.JSONFloat(math.NaN()), LearningRate: 0.001, ImagesPerSecond: report.JSONFloat(math.Inf(1))},
		{Step: 300, Split: report.Validation, TrainLoss: 2, LearningRate: 0.5, ImagesPerSecond: 90},
	}
	type scalar struct {
		name  string
		value float32
	}
	tag := func(n protopack.Number, of protopack.Type) protopack.Tag { return protopack.Tag{Number: n, Type: of} }
	event := func(step int, scalars ...scalar) []byte {
		var summary protopack.LengthPrefix
		for _, s := range scalars {
			summary = append(summary, tag(1, protopack.BytesType), protopack.LengthPrefix{tag(1, protopack.BytesType),
				protopack.String(s.name), tag(2, protopack.Fixed32Type), protopack.Float32(s.value)})
		}
		return protopack.Message{tag(2, protopack.VarintType), protopack.Varint(step), tag(5, protopack.BytesType),
			summary}.Marshal()
	}
	crc := func(data []byte) []byte { return binary.LittleEndian.AppendUint32(nil, maskedCRC(data)) }
	var want []byte
	for _, data := range [][]byte{
		protopack.Message{tag(3, protopack.BytesType), protopack.String("brain.Event:2")}.Marshal(),
		event(0, scalar{"loss/validation", 3.5}, scalar{"top1/validation", 0.25}, scalar{"top5/validation", 0.5},
			scalar{"learning_rate", 0.001}),
		event(300, scalar{"loss/train", 2}, scalar{"learning_rate", 0.5}, scalar{"images_per_second", 90}),
	} {
		length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
		want = slices.Concat(want, length, crc(length), data, crc(data))
	}
	var file bytes.Buffer
	if err := writeEvents(&file, evals); err != nil || !bytes.Equal(file.Bytes(), want) {
		t.Errorf("%q, %v, want %q", &file, err, want)
	}
}

func TestCSV_LeavesOutWhatIsNotFinite(t *testing.T) {
	evals := []report.Eval{{TrainLoss: report.JSONFloat(math.NaN()), Metrics: report.Metrics{Loss: 2.5,
		Top1: 0.125, Top5: 0.5, Images: 7}},
		{Step: 11, Epoch: 1.5, TrainLoss: 0.25, LearningRate: 1e-4, ImagesPerSecond: report.JSONFloat(math.Inf(1))}}
	var out strings.Builder
	want := "step,epoch,train_loss,validation_loss,validation_top1,validation_top5,validation_images,learning_rate," +
		"images_per_second\n0,0,,2.5,0.125,0.5,7,0,0\n11,1.5,0.25,,,,0,0.0001,\n"
	if err := writeCSV(&out, evals); err != nil || out.String() != want {
		t.Errorf("got\n%s%v\nwant\n%s", out.String(), err, want)
	}
}
