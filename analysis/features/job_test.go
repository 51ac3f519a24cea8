// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package features

import (
	"encoding/binary"
	"encoding/json"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/finetune"
	"github.com/wepe-go/wepe/internal/datatest"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// The weight of the last LayerNorm is NaN for channel 5.
func TestFeaturesOfAModelThatDivergedAreRefused(t *testing.T) {
	files := map[string][]byte{}
	for _, name := range []string{"config.json", "model.safetensors", "preprocessor_config.json"} {
		files[name] = gomlxtest.Must(os.ReadFile("../../examples/cifar100/demo/vit/" + name))(t)
	}
	weights := files["model.safetensors"]
	data := 8 + int(binary.LittleEndian.Uint64(weights))
	var header map[string]struct {
		At [2]int `json:"data_offsets"`
	}
	if err := json.Unmarshal(weights[8:data], &header); err != nil {
		t.Fatal(err)
	}
	at := data + header["vit.layernorm.weight"].At[0] + 4*5
	binary.LittleEndian.PutUint32(weights[at:], math.Float32bits(float32(math.NaN())))
	m := gomlxtest.Must(finetune.Open(gomlxtest.Backend(), datatest.Tree(t, files)))(t)
	defer m.Finalize()
	l := gomlxtest.Must(Folder(folder(t)))(t)
	job := Job{Model: m, List: l}
	for _, of := range []string{ofClass, ofMean, ofBoth} {
		job.Of, job.Dir = of, t.TempDir()
		const want = "number 5 of top.png is NaN: the model diverged"
		if _, err := job.Run(t.Context()); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", of, err)
		}
		if _, err := Read(job.Dir); err == nil || !strings.Contains(err.Error(), "are incomplete") {
			t.Errorf("%s: %v", of, err)
		}
	}
	if _, err := PCA(m, l, []int{0, 1, 3}, false); err == nil {
		t.Error("patches that are NaN have colours")
	}
}
