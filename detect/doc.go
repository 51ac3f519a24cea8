// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Package detect detects objects with boxes and masks: ViTDet (Li et al., https://arxiv.org/abs/2203.16527), a plain
// ViT of package vit with the heads of Mask R-CNN (https://arxiv.org/abs/1703.06870) or Cascade Mask R-CNN
// (https://arxiv.org/abs/1712.00726), with any position encoding. It trains detectors and evaluates them as COCO does;
// the command is wepe detect.
//
//	recipe, err := detect.RecipeByName("scenes")
//	train, err := scenes.Generated{Count: 4000, Height: 96, Width: 96}.Set()
//	test, err := scenes.Generated{Count: 200, Height: 96, Width: 96, Seed: 1}.Set()
//	run := detect.Run{Backend: b, Recipe: recipe, Dir: "runs/first", Dataset: "scenes", Train: train,
//		Tests: []detect.Test{{Scenes: test}}}
//	detector, rows, err := run.Do(ctx)      // the same call resumes an interrupted run
//	found, err := detector.Detect(img)      // boxes, classes, scores and masks
//
// Open returns the detector of a finished run. Steps, checkpoints and resume are those of package finetune/engine. The
// run directory contains
//
//	rows.jsonl        a row per evaluation, and one per size of the test images
//	last/             the newest checkpoint, used by resume and by the final test
//	best/             the checkpoint with the highest validation AP of boxes; Open prefers it
//	results-HxW.json  detections in the test images, in COCO's format
//	report.html       figures and images, written by Page
//
// The network:
//
//	images uint8 [batch, rows, cols, 3], each at the top left of a canvas
//	  -> ViT, most blocks within windows      [batch, rows/p, cols/p, width]        Backbone
//	  -> simple feature pyramid, five maps    [batch, ·, ·, channels]               pyramid
//	  -> proposals                            boxes [batch, n, 4]                   RPN
//	  -> class and box of each proposal       [batch, n, classes+1], [batch, n, 4]  ROI
//	  -> mask of each detection               [detections, side, side]
//
// A training step is two programs, because not all backends can sort: the network proposes boxes, the host samples, and
// a graph of fixed shapes computes the losses. Values, losses and gradients equal detectron2's
// (github.com/facebookresearch/detectron2 at 02b5c4e), with three differences: RoIAlign takes at most as many samples
// along a bin as a map has cells; suppression across classes compares classes; and proposals of a training step are
// computed without drop path.
//
// The variables below a detector's scope, with d the width, c the channels, k the classes:
//
//	backbone/patch, backbone/position, backbone/block_00, …     as in package vit
//	backbone/block_00/attention/relative  rows, cols            [2·side-1, headDim] each
//	backbone/block_00/residual/conv_0, conv_1, conv_2           as below, with a norm
//	pyramid/quadruple, double, same, half:
//	  up_0, up_1                          weights, biases       [in, 2, 2, out], [out]
//	  up_norm                             gain, offset          [d/2]
//	  lateral, output                     weights               [in, c], [3, 3, c, c]
//	  lateral/norm, output/norm           gain, offset          [c]
//	rpn/conv_0, …                         weights, biases       [3, 3, c, c], [c]
//	rpn/objects, deltas                   weights, biases       [c, anchors], [c, 4·anchors]
//	roi/stage_0, …:
//	  conv_0, …                           weights, norm         [3, 3, in, out], [out]
//	  dense_0, …                          weights, biases       [in, out], [out]
//	  classes, deltas                     weights, biases       [units, k+1], [units, 4·k], or [units, 4] in a cascade
//	roi/mask:
//	  conv_0, …                           weights, norm         [3, 3, in, out], [out]
//	  double                              weights, biases       [in, 2, 2, out], [out]
//	  classes                             weights, biases       [in, k], [k]
//
// All computation is float32, on the go, xla and onnx backends.
package detect
