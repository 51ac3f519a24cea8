// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package data holds labelled image sets as bytes and turns batches of them into augmented float images inside a
// GoMLX graph.
//
// # Why bytes, and why in the graph
//
// The pixels of a Set go to the device once, as uint8 [n, height, width, channels]. For each batch the host only
// draws a Plan: which rows, which window of each image, flipped or not, which box is cut out, who is mixed with whom.
// That is a hundred numbers or so per image; crop, flip, pad, resize, normalisation, cutout, mixup and cutmix then
// happen in the graph (Augment.Images), so an accelerator never waits for pixels.
//
//	train, test, err := data.CIFAR100(dir)
//	augment := data.Augment{Size: [2]int{224, 224}, Pad: 4, FlipProb: 0.5, Cutout: 12,
//		Mean: data.CIFAR100Mean, Std: data.CIFAR100Std}
//	order := data.Order(seed, epoch, train.Len())
//	plan := augment.Plan(train, seed, epoch, batch, order[batch*size:(batch+1)*size])
//
//	// In the graph; pixels and plan are the nodes of train.Tensor() and plan.Tensors():
//	images := augment.Images(pixels, plan)             // [batch, 224, 224, 3]
//	targets := data.SoftLabels(plan, classes, 0.1)     // [batch, classes]
//
// # Images in files
//
// Image brings images of any size to one size on the host, as Pillow does, by the settings that pretrained models
// come with (package preprocess). Folder and Lists find labelled images, Files.Load makes a Set of them:
//
//	settings, err := preprocess.Read("vit/preprocessor_config.json")
//	train, held, err := data.Folder("flowers", nil, 0.15, seed)
//	set, err := train.Load(ctx, settings, nil)
//	var augment data.Augment // what is left for the graph
//	augment.Mean, augment.Std = settings.Normalisation()
//
// # Reproducibility
//
// Every draw is a pure function: the order of (seed, epoch), what happens to one image of (seed, epoch, row of the
// set), mixing of (seed, epoch, batch number). No generator state exists, so a run resumed at any batch, or split over
// any number of workers, sees the same images. (GoMLX's dataset.InMemory keeps a set on the device too, but draws
// from a generator whose state would have to be saved, and knows neither augmentation nor files.)
//
// # Conventions
//
// Rows come before columns everywhere. Lines and columns are counted at pixel centres: output line i of a window of h
// lines shown on H' lines reads source line (i + ½)·h/H' − ½ ("half-pixel centres").
package data
