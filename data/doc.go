// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package data holds labelled images and augments them in batches.
//
//	train, test, err := data.CIFAR100(dir)
//	augment := data.Augment{Size: [2]int{224, 224}, Pad: 4, HFlip: 0.5, Cutout: 12}
//	order := data.Order(seed, epoch, train.Len(), 1)
//	plan := augment.Plan(train, seed, epoch, batch, order[batch*size:(batch+1)*size])
//
//	// In the graph; pixels and plan are the nodes of train.Tensor() and plan.Tensors():
//	images := augment.Images(pixels, plan)             // [batch, 224, 224, 3]
//	targets := data.SoftLabels(plan, classes, 0.1)     // [batch, classes]
//
// # Augmentation in the graph
//
// Pixels are transferred to the device once, as uint8 [n, height, width, channels]. For each batch the host draws a
// Plan: image indices, crop windows, flips, cutout boxes, mixing partners. Crop, flip, padding, resize, normalization,
// cutout, mixup and CutMix are computed in the graph. Operations that only the host supports (rotation, RandAugment and
// others) are applied by workers before that.
//
// # Images in files
//
// [Find] and [Lists] find labelled images; [Files.Load] reads them into memory, [Files.Stream] decodes each batch
// ahead of its use. Images are resized as Pillow does, with the settings that a pretrained model declares (package
// preprocess).
//
// # Reproducibility
//
// Every random draw is a pure function: the order depends on (seed, epoch), augmentation on (seed, epoch, index),
// mixing on (seed, epoch, batch). There is no generator state, so a resumed run sees the same images, with any number
// of workers or processes.
//
// # Conventions
//
// Rows come before columns. Coordinates refer to pixel centres: output line i of a window of h lines resized to H'
// lines reads source line (i + ½)·h/H' − ½.
package data
