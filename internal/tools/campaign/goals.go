// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

package main

import "strings"

// goal is a promise about files that come from strangers and runs that are killed, and the tests that hold it.
type goal struct {
	name    string
	promise string
	parts   []part
}

// part is one call of the Go tool.
type part struct {
	packages string // as the Go tool takes them, from the root, without ./
	tests    string // a pattern; of a target of fuzzing its name
	race     bool
	tags     string
	tool     []string // another command in place of tests, and its arguments
}

// whole is how the goals were set; what a campaign reached is in its rows.
var goals = []goal{
	{"R1", "20 fuzz targets, 5·10⁶ executions of each and 10⁸ in all: no crash, properties hold", targets(
		"checkpoints", "FuzzSafetensorsHeader FuzzSafetensors FuzzNPZ FuzzJSON FuzzManifest",
		"checkpoints/preprocess", "FuzzParse", "checkpoints/hub", "FuzzParseModel",
		"internal/numpy", "FuzzHeader FuzzNPY",
		"finetune/data", "FuzzDecode FuzzEXIF FuzzList FuzzCIFAR100Records FuzzCIFAR100Archive FuzzTar",
		"finetune/data/parquet", "FuzzFiles", "finetune", "FuzzSet",
		"detect/coco", "FuzzInstances FuzzResults FuzzUnpack")},
	{"R2", "200,000 mutated checkpoints: no panic, no hang, no changed tensor under a hash", []part{
		{packages: "checkpoints", tests: "TestNoMutation|TestMutatedCheckpoints|TestAMutatedHeader"},
		{packages: "checkpoints", tests: "TestMutatedONNX", tags: "onnx"}}},
	{"R3", "a file of N bytes takes at most 3·N + 16 MiB to read; a header's lie less than 1 MiB", []part{
		{packages: "checkpoints", tests: "TestEveryAttack|TestEveryHostile|TestMutatedCheckpoints"},
		{packages: "finetune/data", tests: "TestEveryReader"},
		{packages: "finetune/data/parquet", tests: "TestALie"}}}, // and within the fuzz targets of R1
	{"R4", "60 attacks that are known: each is refused, by a typed error, soon and in little memory", []part{
		{packages: "checkpoints", tests: "TestEveryAttack|TestEveryHostile|TestHostile|TestAnIndexHas"},
		{packages: "finetune/data", tests: "Refuse|TestAnArchiveOfZeros|TestScans|TestListsNames"},
		{packages: "finetune/data/parquet", tests: "TestWhatIsNoSet|TestDamage|TestALie"},
		{packages: "detect/coco", tests: "TestBroken"}}},
	{"R5", "1,000 kills of a training that saves at every step: the end is bit-identical", []part{
		{packages: "examples/cifar100", tests: "TestAKilledTraining"}}},
	{"R6", "a fault at every file operation of a save or an export: no older checkpoint is lost", []part{
		{packages: "checkpoints", tests: "TestAFaultAtAnyOperation"}}},
	{"R7", "10,000 schedules of lost writes: a whole checkpoint is always found", []part{
		{packages: "checkpoints", tests: "TestAPowerCut"}}},
	{"R8", "200 scenarios of a hostile server: the right bytes or an error, the token stays at its host", []part{
		{packages: "internal/fetch", tests: "."}, {packages: "checkpoints/hub", tests: "."}}},
	{"R9", "a resumed run is the unbroken one, for any number of workers and parts of a batch", []part{
		{packages: "finetune", tests: "TestAnInterruptedRun|TestAccumulation|TestARunFromAStream"},
		{packages: "finetune/data", tests: "TestOrderAndPixels"}}},
	{"R10", "no race; two processes: one run directory has one owner, one cache serves both", []part{
		{packages: "internal/... checkpoints/...", tests: ".", race: true},
		{packages: "finetune/...", tests: ".", race: true}, {packages: "examples/... cmd/...", tests: ".", race: true},
		{packages: "wepe/... vit/... analysis/... detect/...", tests: ".", race: true},
		{packages: "checkpoints", tests: "TestARunDirectory"}, {packages: "internal/fetch", tests: "TestTwoProcesses"}}},
	{"R11", "1,000 times opened, cancelled and closed: no goroutine and no file is left", []part{
		{packages: "checkpoints", tests: "Leak"}, {packages: "internal/fetch", tests: "Leak"},
		{packages: "finetune/data", tests: "Leak"}, {packages: "finetune", tests: "Leak"}}},
	{"R12", "10,000 random models: bit-equal through every format", []part{
		{packages: "checkpoints", tests: "TestRandomModelsCome"},
		{packages: "checkpoints", tests: "TestRandomModelsHave", tags: "onnx"}}},
	{"R13", "no reachable vulnerability, permissive licences only", []part{
		{packages: "internal/tools/house", tests: "Licence"},
		{tool: []string{"run", "golang.org/x/vuln/cmd/govulncheck@v1.8.0", "-db", "$VULNDB", "./..."}}}},
	{"R14", "a full disk: an error, the older checkpoint loads, the space is given back", []part{
		{packages: "checkpoints", tests: "TestAFullDisk"}, {packages: "examples/cifar100", tests: "TestAFullDisk"}}},
}

// targets are parts, one for each fuzz target of the packages.
func targets(packagesAndNames ...string) (parts []part) {
	for i := 0; i < len(packagesAndNames); i += 2 {
		for name := range strings.FieldsSeq(packagesAndNames[i+1]) {
			parts = append(parts, part{packages: packagesAndNames[i], tests: "^" + name + "$"})
		}
	}
	return parts
}
