// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package dataset

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/wepe-go/wepe/checkpoints/preprocess"
	"github.com/wepe-go/wepe/data"
)

// Images of 3×2 pixels, one of them in each mask. COCO's file names have no folders; where two images have one name,
// the folders decide.
func TestMasks_BelongToTheirImages(t *testing.T) {
	annotations := func(names ...string) string {
		var images, objects []string
		for i, name := range names {
			images = append(images, fmt.Sprintf(`{"id":%d,"file_name":%q,"height":3,"width":2}`, i+7, name))
			objects = append(objects, fmt.Sprintf(`{"id":%d,"image_id":%d,"category_id":1,"iscrowd":0,"area":1,`+
				`"bbox":[0,%d,1,1],"segmentation":[[0,%[3]d,1,%[3]d,1,%[4]d,0,%[4]d]]}`, i+1, i+7, i, i+1))
		}
		path := filepath.Join(t.TempDir(), "instances.json")
		text := fmt.Sprintf(`{"images":[%s],"annotations":[%s],"categories":[{"id":1,"name":"thing"}]}`,
			strings.Join(images, ","), strings.Join(objects, ","))
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			t.Fatal(err)
		}
		return path
	}
	exact := preprocess.Settings{Resize: preprocess.ResizeExact, Size: [2]int{3, 2}}
	for _, c := range []struct {
		images, listed []string
		rows           []int // of the masks' pixels
		want           string
	}{
		{[]string{"a/1.png", "b/2.png"}, []string{"2.png", "1.png"}, []int{1, 0}, ""},
		{[]string{"a/1.png", "b/1.png"}, []string{"b/1.png", "a/1.png"}, []int{1, 0}, ""},
		{[]string{"a/1.png", "b/1.png"}, []string{"1.png"}, nil, "a/1.png"},
		{[]string{"a/1.png"}, []string{"b/1.png", "c/1.png"}, nil, "a/1.png"},
		{[]string{"a/1.png"}, []string{"2.png"}, nil, "1.png"},
	} {
		files, err := data.NewFiles("images", t.TempDir(), c.images, make([]int32, len(c.images)), []string{"only"})
		if err != nil {
			t.Fatal(err)
		}
		mask, err := annotated(annotations(c.listed...), files, exact)
		asFloat := exact
		asFloat.Float = true // as DINOv3's images are resized
		if floats, _ := annotated(annotations(c.listed...), files, asFloat); mask != nil {
			for i := range c.rows {
				if !slices.Equal(floats(i), mask(i)) {
					t.Errorf("mask %d is %v with images resized as floats, else %v", i, floats(i), mask(i))
				}
			}
		}
		if (err == nil) != (c.want == "") || err != nil && !strings.Contains(err.Error(), c.want) {
			t.Fatalf("%v in %v: %v, want %q", c.images, c.listed, err, c.want)
		}
		for i, row := range c.rows {
			want := make([]bool, 6)
			want[2*row] = true
			if got := mask(i); !slices.Equal(got, want) {
				t.Errorf("%v in %v: mask %d is %v, want %v", c.images, c.listed, i, got, want)
			}
		}
	}
}
