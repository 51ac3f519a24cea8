// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package engine

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"google.golang.org/protobuf/testing/protopack"

	"github.com/wepe-go/wepe/report"
)

func TestProgress_SaysWhatTheValidationMeasured(t *testing.T) {
	ap := func(v report.JSONFloat) map[string]report.JSONFloat { return map[string]report.JSONFloat{"AP": v} }
	detected := func(boxes, masks map[string]report.JSONFloat) Progress {
		return Progress{Eval: &report.Eval{DetectionMetrics: report.DetectionMetrics{Boxes: boxes, Masks: masks}}}
	}
	for want, p := range map[string]Progress{
		"step 3/5  0.43 images/s":             {}, // no loss was read
		"step 3/5  loss 0.700  0.43 images/s": {Loss: 0.7},
		"mean loss 0.000  0.43 images/s":      {Eval: &report.Eval{}},
		"validation top-1 25.0 %":             {Eval: &report.Eval{Metrics: report.Metrics{Top1: 0.25, Images: 7}}},
		"validation box AP 50.0  mask AP 0.0": detected(ap(0.5), ap(0)),
		"validation box AP –  0.43 images/s":  detected(ap(-1), nil),
		"validation box AP –  mask AP –":      detected(ap(-1), ap(-1)),
	} {
		p.Step, p.Steps, p.ImagesPerSecond = 3, 5, 0.43
		if got := p.String(); !strings.Contains(got, want) {
			t.Errorf("%s, want %s", got, want)
		}
	}
}

// Events and the table have the finite scalars of every row. The first record of every event file that TensorFlow
// writes has 24 bytes; the checksum of that length is a3 7f 4b 22.
func TestLogs_LeaveOutWhatIsNotFinite(t *testing.T) {
	evals := []report.Eval{
		{Step: 0, Split: report.Validation, Metrics: report.Metrics{Loss: 3.5, Top1: 0.25, Top5: 0.5, Images: 7},
			TrainLoss: report.JSONFloat(math.NaN()), LearningRate: 0.001, ImagesPerSecond: report.JSONFloat(math.Inf(1))},
		{Step: 300, Epoch: 1.5, Split: report.Validation, TrainLoss: 2, LearningRate: 1e-4, ImagesPerSecond: 90},
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
	if got := crc(binary.LittleEndian.AppendUint64(nil, 24)); string(got) != "\xa3\x7f\x4b\x22" {
		t.Errorf("%x, want a37f4b22", got)
	}
	var want []byte
	for _, data := range [][]byte{
		protopack.Message{tag(3, protopack.BytesType), protopack.String("brain.Event:2")}.Marshal(),
		event(0, scalar{"loss/validation", 3.5}, scalar{"top1/validation", 0.25}, scalar{"top5/validation", 0.5},
			scalar{"learning_rate", 0.001}),
		event(300, scalar{"loss/train", 2}, scalar{"learning_rate", 1e-4}, scalar{"images_per_second", 90}),
	} {
		length := binary.LittleEndian.AppendUint64(nil, uint64(len(data)))
		want = slices.Concat(want, length, crc(length), data, crc(data))
	}
	const table = "step,epoch,train_loss,validation_loss,validation_top1,validation_top5,validation_images," +
		"learning_rate,images_per_second\n0,0,,3.5,0.25,0.5,7,0.001,\n300,1.5,2,,,,0,0.0001,90\n"
	var events, csv strings.Builder
	if err := errors.Join(writeEvents(&events, evals), writeCSV(&csv, evals)); err != nil ||
		events.String() != string(want) || csv.String() != table {
		t.Errorf("%q and\n%s%v, want %q and\n%s", &events, &csv, err, want, table)
	}
}
