// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

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

// field returns the fields of a message with a number.
func field(t *testing.T, message []byte, number protowire.Number) (values [][]byte) {
	t.Helper()
	for len(message) > 0 {
		n, kind, size := protowire.ConsumeTag(message)
		if size < 0 {
			t.Fatal(protowire.ParseError(size))
		}
		message = message[size:]
		length := protowire.ConsumeFieldValue(n, kind, message)
		if length < 0 {
			t.Fatal(protowire.ParseError(length))
		}
		value := message[:length]
		if kind == protowire.BytesType {
			value, _ = protowire.ConsumeBytes(value)
		}
		if message = message[length:]; n == number {
			values = append(values, value)
		}
	}
	return values
}

func TestEvents_HaveTheFiniteScalarsOfEveryRow(t *testing.T) {
	evals := []report.Eval{
		{Step: 0, Split: report.Validation, Metrics: report.Metrics{Loss: 3.5, Top1: 0.25, Top5: 0.5, Images: 7},
			TrainLoss: report.JSONFloat(math.NaN()), LearningRate: 0.001, ImagesPerSecond: report.JSONFloat(math.Inf(1))},
		{Step: 300, Split: report.Validation, TrainLoss: 2, LearningRate: 0.5, ImagesPerSecond: 90},
	}
	var file, less bytes.Buffer
	if err := writeEvents(&file, evals); err != nil {
		t.Fatal(err)
	}
	if err := writeEvents(&less, evals[:1]); err != nil || !bytes.HasPrefix(file.Bytes(), less.Bytes()) {
		t.Errorf("with a row more the file begins otherwise: %v", err)
	}
	var got []string
	for raw := file.Bytes(); len(raw) > 0; {
		n := binary.LittleEndian.Uint64(raw)
		if data := raw[12 : 12+n]; binary.LittleEndian.Uint32(raw[8:]) != maskedCRC(raw[:8]) ||
			binary.LittleEndian.Uint32(raw[12+n:]) != maskedCRC(data) {
			t.Fatal("a wrong checksum")
		} else if summaries := field(t, data, 5); len(summaries) == 0 {
			got = append(got, string(field(t, data, 3)[0]))
		} else {
			step, _ := protowire.ConsumeVarint(field(t, data, 2)[0])
			for _, value := range field(t, summaries[0], 1) {
				number, _ := protowire.ConsumeFixed32(field(t, value, 2)[0])
				got = append(got, fmt.Sprintf("%d %s %g", step, field(t, value, 1)[0], math.Float32frombits(number)))
			}
		}
		raw = raw[16+n:]
	}
	want := []string{"brain.Event:2", "0 loss/validation 3.5", "0 top1/validation 0.25", "0 top5/validation 0.5",
		"0 learning_rate 0.001", "300 loss/train 2", "300 learning_rate 0.5", "300 images_per_second 90"}
	if !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
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
