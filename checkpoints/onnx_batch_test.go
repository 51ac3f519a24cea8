// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

//go:build linux && amd64 && onnx

package checkpoints

import (
	"path/filepath"
	"strings"
	"testing"

	onnx "github.com/gomlx/compute-onnx"
	"github.com/gomlx/compute/dtypes"
	"google.golang.org/protobuf/proto"

	"github.com/wepe-go/wepe/internal/campaign"
)

func TestAGraphWhoseConstantsHaveAnotherLengthIsRefused(t *testing.T) {
	m := calm(randomViT(t, campaign.Rand(34), dtypes.Float32))
	model := new(onnx.Executable).ModelProto().ProtoReflect().New().Interface()
	if err := proto.Unmarshal(readFile(t, onnxOf(t, filepath.Join(t.TempDir(), "model"), m)), model); err != nil {
		t.Fatal(err)
	}
	constants := shapeConstants(model)
	for name := range constants {
		constants[name] = append(constants[name], 1)
	}
	if err := freeBatch(model, 2, constants, 3); err == nil || !strings.Contains(err.Error(),
		"depends on the batch size") {
		t.Error(err)
	}
}
