// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package coco

import (
	"cmp"
	"fmt"
	"slices"
)

// Dataset is the content of an instances file: images, categories, and objects in the images.
type Dataset struct {
	Name        string // of the file, for errors
	Images      []Image
	Categories  []Category
	Annotations []Annotation
	SHA256      string // of the file that Read read
}

// Image is an entry of the list of images.
type Image struct {
	ID       int64  `json:"id"`
	FileName string `json:"file_name"`
	Height   int    `json:"height"`
	Width    int    `json:"width"`
}

// Category is one kind of object. Its class, for a model, is its index among the categories sorted by ID.
type Category struct {
	ID            int64  `json:"id"`
	Name          string `json:"name"`
	Supercategory string `json:"supercategory,omitempty"`
}

// Annotation is one object. IDs start at 1: cocoapi treats a match with an object of ID 0 as no match. Fields that the
// file lacks are nil: training does not need them, but evaluation does.
type Annotation struct {
	ID           int64        `json:"id"`
	ImageID      int64        `json:"image_id"`
	CategoryID   int64        `json:"category_id"`
	Segmentation Segmentation `json:"segmentation,omitzero"`
	Area         *float64     `json:"area,omitempty"` // of the mask in square pixels; makes the object small or large
	Box          *Box         `json:"bbox,omitempty"`
	Crowd        *int         `json:"iscrowd,omitempty"` // 1 for many objects under one mask, else 0
}

// IsCrowd reports whether it is many objects under one mask.
func (a *Annotation) IsCrowd() bool { return a.Crowd != nil && *a.Crowd != 0 }

// SortedCategories returns the categories by ID: classes 0, 1, … of a model.
func (d *Dataset) SortedCategories() []Category {
	return slices.SortedFunc(slices.Values(d.Categories), func(a, b Category) int { return cmp.Compare(a.ID, b.ID) })
}

// index finds images and categories, and the annotations of each image in the order of the file.
type index struct {
	images     map[int64]*Image
	classes    map[int64]int // indices among sorted categories
	categories []Category    // sorted
	objects    map[int64][]*Annotation
}

// index returns the index, or an error for duplicates.
func (d *Dataset) index() (*index, error) {
	x := &index{images: map[int64]*Image{}, classes: map[int64]int{}, categories: d.SortedCategories(),
		objects: map[int64][]*Annotation{}}
	for i := range d.Images {
		image := &d.Images[i]
		if x.images[image.ID] != nil {
			return nil, fmt.Errorf("coco: %s: two images have the id %d", d.Name, image.ID)
		}
		x.images[image.ID] = image
	}
	for class, c := range x.categories {
		if _, known := x.classes[c.ID]; known {
			return nil, fmt.Errorf("coco: %s: two categories have id %d", d.Name, c.ID)
		}
		x.classes[c.ID] = class
	}
	seen := make(map[int64]bool, len(d.Annotations))
	for i := range d.Annotations {
		a := &d.Annotations[i]
		if seen[a.ID] {
			return nil, fmt.Errorf("coco: %s: two annotations have id %d", d.Name, a.ID)
		}
		seen[a.ID] = true
		x.objects[a.ImageID] = append(x.objects[a.ImageID], a)
	}
	return x, nil
}

// Objects returns the annotations of each image by its ID, in the order of the file; also for unknown images.
func (d *Dataset) Objects() (map[int64][]*Annotation, error) {
	x, err := d.index()
	if err != nil {
		return nil, err
	}
	return x.objects, nil
}

// Mask returns the mask of an annotation in its image.
func (d *Dataset) Mask(image Image, a *Annotation) (RLE, error) {
	mask, err := a.Segmentation.Mask(image.Height, image.Width)
	if err != nil {
		return RLE{}, fmt.Errorf("coco: %s: annotation %d of image %d: %w", d.Name, a.ID, image.ID, err)
	}
	return mask, nil
}

// Union returns which pixels of an image belong to any of its objects, crowds included.
func (d *Dataset) Union(image Image, objects []*Annotation) (RLE, error) {
	if err := checkSize(image.Height, image.Width); err != nil {
		return RLE{}, fmt.Errorf("coco: %s: image %d: %w", d.Name, image.ID, err)
	}
	union := RLE{Height: image.Height, Width: image.Width}
	for _, a := range objects {
		mask, err := d.Mask(image, a)
		if err == nil {
			union, err = unite(union, mask)
		}
		if err != nil {
			return RLE{}, err
		}
	}
	return union, nil
}
