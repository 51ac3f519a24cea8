// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"strings"
	"testing"

	detection "github.com/wepe-go/wepe/detect"
	"github.com/wepe-go/wepe/internal/gomlxtest"
)

// cocoapi counts a detection of the object of annotation 0 as wrong, and so do the metrics here.
func TestDetect_WarnsOfAnnotationZero(t *testing.T) {
	t.Chdir(t.TempDir())
	succeeds(t, "detect", "train", "--export-coco", "c", "--train-scenes", "1", "--test-scenes", "1")
	_, instances := cocoPaths("c", "val2017")
	raw := gomlxtest.Must(os.ReadFile(instances))(t)
	for id, warns := range map[string]bool{"1": false, "0": true} {
		text := bytes.Replace(raw, []byte(`"id":1,"image_id"`), []byte(`"id":`+id+`,"image_id"`), 1)
		if err := os.WriteFile(instances, text, 0o644); err != nil {
			t.Fatal(err)
		}
		got := complains(t, func() { (&objects{data: "coco:c", test: 1, shapes: 1}).load(detection.Recipe{}, false) })
		if strings.Contains(got, "warning: an annotation has the id 0") != warns {
			t.Errorf("with annotation %s it prints %s", id, got)
		}
	}
}
