// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package scenes

import (
	"bytes"
	"cmp"
	"errors"
	"fmt"
	"image/png"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"

	"github.com/wepe-go/wepe/data"
	"github.com/wepe-go/wepe/detect/coco"
	"github.com/wepe-go/wepe/internal/disk"
)

// folder is a directory of images with COCO annotations.
type folder struct {
	dir     string
	dataset *coco.Dataset
	logger  *slog.Logger
	warned  *sync.Once
	images  []coco.Image // by ID
	objects map[int64][]*coco.Annotation
	classes map[int64]int
	boxes   bool // without masks, where there are boxes
}

// Open reads an instances file and checks that its images are in a directory; files outside it are never read. Missing
// images are an error that lists them; so is an object of an unknown category. The logger gets [data.ClippedGrey],
// once; it may be nil.
//
// Scenes are by ID of their image. As in detectron2, polygons with fewer than six numbers, or an odd number, are
// skipped, and so are objects without any other; an object without a segmentation has no mask. An image must have the
// size that the file gives.
func Open(dir, instances string, logger *slog.Logger) (*Set, error) {
	d, err := coco.Read(instances)
	if err != nil {
		return nil, err
	}
	f := &folder{dir: dir, dataset: d, logger: logger, warned: &sync.Once{}, classes: map[int64]int{}}
	f.images = slices.SortedFunc(slices.Values(d.Images), func(a, b coco.Image) int { return cmp.Compare(a.ID, b.ID) })
	if f.objects, err = d.Objects(); err != nil {
		return nil, err
	}
	for class, c := range d.SortedCategories() {
		f.classes[c.ID] = class
	}
	for _, a := range d.Annotations {
		if _, known := f.classes[a.CategoryID]; !known {
			return nil, fmt.Errorf("scenes: %s: annotation %d is of category %d, which the file does not list", d.Name, a.ID,
				a.CategoryID)
		}
	}
	root, err := os.OpenRoot(dir)
	if err != nil {
		return nil, fmt.Errorf("scenes: %w", err)
	}
	defer root.Close()
	var missing []string
	remedy := ""
	for _, image := range f.images {
		_, err := root.Stat(filepath.FromSlash(image.FileName))
		if err == nil {
			continue
		}
		text := fmt.Sprintf("%q of image %d", image.FileName, image.ID)
		if !errors.Is(err, fs.ErrNotExist) {
			text += fmt.Sprintf(" (%v)", errors.Unwrap(err))
			remedy = "; links that leave the directory are not followed: name the directory that they lead to, or copy it"
		}
		missing = append(missing, text)
	}
	if len(missing) > 0 {
		const shown = 10
		list := strings.Join(missing[:min(shown, len(missing))], ", ")
		return nil, fmt.Errorf("scenes: %d of %d images of %s are not in %s: %s%s", len(missing), len(f.images), d.Name, dir,
			list, remedy)
	}
	return f.set(), nil
}

func (f *folder) set() *Set {
	return &Set{Name: f.dataset.Name, SHA256: f.dataset.SHA256, Categories: f.dataset.SortedCategories(),
		Len: len(f.images), At: f.at, Annotated: func() (*coco.Dataset, error) { return f.dataset, nil }, folder: f}
}

// keep returns a set of some of the images, and of their annotations.
func (f *folder) keep(image func(coco.Image) bool) *Set {
	out, d, kept := *f, *f.dataset, map[int64]bool{}
	out.dataset, out.images, d.Annotations = &d, nil, nil
	for _, i := range f.images {
		if kept[i.ID] = image(i); kept[i.ID] {
			out.images = append(out.images, i)
		}
	}
	for _, a := range f.dataset.Annotations {
		if kept[a.ImageID] {
			d.Annotations = append(d.Annotations, a)
		}
	}
	d.Images = out.images
	return out.set()
}

// Training returns a set without the images of a folder that have no object, or only crowds. Of generated scenes it is
// the set.
func (s *Set) Training() *Set {
	if s.folder == nil {
		return s
	}
	return s.folder.keep(func(image coco.Image) bool {
		return slices.ContainsFunc(s.folder.objects[image.ID], func(a *coco.Annotation) bool { return !a.IsCrowd() })
	})
}

// WithoutMasks returns a set whose objects have no masks where a folder gives boxes: a malformed mask is no error.
func (s *Set) WithoutMasks() *Set {
	if s.folder == nil {
		return s
	}
	out, f := *s, *s.folder
	f.boxes = true
	out.folder, out.At = &f, f.at
	return &out
}

// Split splits the images of a folder into training and validation; part is the fraction for validation, 0 to 1. It is
// deterministic. Generated scenes are all for training: validation is nil.
func (s *Set) Split(part float64) (training, validation *Set) {
	if s.folder == nil {
		return s, nil
	}
	images := s.folder.images
	n := int(math.Round(part * float64(len(images))))
	chosen := map[int64]bool{}
	for _, i := range data.Order(0, 0, len(images), 1)[:n] {
		chosen[images[i].ID] = true
	}
	return s.folder.keep(func(image coco.Image) bool { return !chosen[image.ID] }),
		s.folder.keep(func(image coco.Image) bool { return chosen[image.ID] })
}

// at reads a scene.
func (f *folder) at(index int) (*Scene, error) {
	image := f.images[index]
	file, err := os.OpenInRoot(f.dir, filepath.FromSlash(image.FileName))
	if err != nil {
		return nil, fmt.Errorf("scenes: image %d: %w", image.ID, err)
	}
	defer file.Close()
	img, err := data.Decode(file)
	if err != nil {
		return nil, fmt.Errorf("scenes: %s: %w", file.Name(), err)
	}
	if image.Height == 0 && image.Width == 0 {
		image.Height, image.Width = img.Height, img.Width
	}
	if image.Height != img.Height || image.Width != img.Width {
		return nil, fmt.Errorf("scenes: %s is of %d×%d pixels, image %d of %s of %d×%d", file.Name(), img.Height,
			img.Width, image.ID, f.dataset.Name, image.Height, image.Width)
	}
	if img.Clipped && f.logger != nil {
		f.warned.Do(func() { f.logger.Warn(data.ClippedGrey, "dataset", f.dataset.Name, "image", image.FileName) })
	}
	s := &Scene{ImageID: image.ID, Image: img, Rows: img.Height, Cols: img.Width}
	for _, a := range f.objects[image.ID] {
		o, kept, err := f.object(image, a)
		if err != nil {
			return nil, err
		}
		if kept {
			s.Objects = append(s.Objects, o)
		}
	}
	return s, nil
}

// object returns the object of an annotation, unless nothing of it remains.
func (f *folder) object(image coco.Image, a *coco.Annotation) (o Object, kept bool, err error) {
	o = Object{Class: f.classes[a.CategoryID], Crowd: a.IsCrowd()}
	if a.Box != nil && (f.boxes || o.Crowd) {
		o.Box = *a.Box
		return o, true, nil
	}
	sound := *a
	if len(a.Segmentation.Polygons) > 0 {
		for _, part := range a.Segmentation.Polygons {
			if len(part)%2 == 0 && len(part) >= 6 {
				o.Polygons = append(o.Polygons, part)
			}
		}
		if sound.Segmentation.Polygons = o.Polygons; len(o.Polygons) == 0 {
			return o, false, nil
		}
	}
	if !sound.Segmentation.Empty() {
		if o.Mask, err = f.dataset.Mask(image, &sound); err != nil {
			return o, false, err
		}
		if o.Mask.Height != image.Height || o.Mask.Width != image.Width {
			return o, false, fmt.Errorf("scenes: %s: annotation %d has a mask of %d×%d pixels, its image has %d×%d",
				f.dataset.Name, a.ID, o.Mask.Height, o.Mask.Width, image.Height, image.Width)
		}
	}
	switch {
	case a.Box != nil:
		o.Box = *a.Box
	case o.hasMask():
		o.Box = o.Mask.Box()
	default:
		return o, false, fmt.Errorf("scenes: %s: annotation %d has neither bbox nor segmentation", f.dataset.Name, a.ID)
	}
	return o, true, nil
}

// Write creates a directory with generated scenes as png, and an instances file in COCO's form: Open reads both. Scenes
// of a single shape are in one folder per category.
func Write(dir, instances string, s *Set) error {
	d, err := s.Annotated()
	if err != nil {
		return err
	}
	for i, image := range d.Images {
		scene, err := s.At(i)
		if err != nil {
			return err
		}
		var file bytes.Buffer
		path := filepath.Join(dir, filepath.FromSlash(image.FileName))
		err = errors.Join(png.Encode(&file, scene.Image.RGBA()), os.MkdirAll(filepath.Dir(path), 0o755))
		if err = cmp.Or(err, os.WriteFile(path, file.Bytes(), 0o644)); err != nil {
			return fmt.Errorf("scenes: %w", err)
		}
	}
	return disk.Write(instances, d.Write)
}
