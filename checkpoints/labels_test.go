// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package checkpoints

import (
	"fmt"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/internal/strictjson"
)

// timm writes label_names as a list, or as an object if the numbers of the classes have gaps.
func TestNamesOfAnotherNumberOfClassesAreRefusedInEitherFile(t *testing.T) {
	list := func(n int) string { return "[" + strings.TrimSuffix(strings.Repeat(`"x",`, n), ",") + "]" }
	object := func(n int) string {
		var all []string
		for i := range n {
			all = append(all, fmt.Sprintf(`"%d":"x"`, i))
		}
		return "{" + strings.Join(all, ",") + "}"
	}
	for value, want := range map[string]string{
		list(13): "", "null": "", object(12): "", list(0): "",
		list(12): "label_names has 12 names, want those of the 13 classes",
	} {
		config := strings.TrimSuffix(timmConfig(smallViT), "}") + `,"label_names":` + value + "}"
		m, err := Import(put(t, timm, made(timm, smallViT), config), ImportOptions{})
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("label_names %s: %v, want %q", value, err, want)
		}
		if n := len(value); err == nil && (len(m.Labels) == 13) != (value == list(13)) {
			t.Errorf("label_names of %d bytes: labels %q", n, m.Labels)
		}
	}
	for fields, want := range map[string]int{
		`"labels":` + list(13):                                13, // of old files
		`"pretrained_cfg":{"label_names":` + list(13) + `}`:   13,
		`"pretrained_cfg":{"label_names":` + list(12) + `}`:   0, // of another head
		`"label_names":null,"pretrained_cfg":{"tag":"in21k"}`: 0,
	} {
		config, err := strictjson.ParseObject([]byte("{" + fields + "}"))
		if err != nil {
			t.Fatal(err)
		}
		if labels, err := labelsIn(config, 13); err != nil || len(labels) != want {
			t.Errorf("%.40s: %d labels, %v, want %d", fields, len(labels), err, want)
		}
	}
	_, err := Import(put(t, hf, made(hf, smallViT), hfConfig("id2label", object(12))), ImportOptions{})
	if err == nil || !strings.Contains(err.Error(), "want names of the 13 classes of the head") {
		t.Errorf("id2label: %v", err)
	}
}
