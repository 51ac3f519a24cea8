// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// A library that stands between a program and ONNX Runtime, WEPE_ORT, and sets what its Go binding has no options for.
// Every session gets a thread for each processor that the program may run on, as torch does: ONNX Runtime by itself takes
// one for each of the machine and binds them there, whatever taskset says, and on a busy one the others wait. With
// WEPE_ORT_PROFILE, the beginning of the files PREFIX-N_TIME.json, every session writes a profile.
#define _GNU_SOURCE
#include <dlfcn.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include "onnxruntime_c_api.h"

static const OrtApiBase* real;
static OrtApiBase base;
static OrtApi api;
static OrtStatusPtr(ORT_API_CALL* create)(OrtSessionOptions** out);

static OrtStatusPtr ORT_API_CALL create_set(OrtSessionOptions** out) {
  static int number;
  char prefix[4096];
  cpu_set_t mine;
  OrtStatusPtr status = create(out);
  if (status == NULL && sched_getaffinity(0, sizeof mine, &mine) == 0)
    status = api.SetIntraOpNumThreads(*out, CPU_COUNT(&mine));
  if (status != NULL || getenv("WEPE_ORT_PROFILE") == NULL) return status;
  snprintf(prefix, sizeof prefix, "%s-%d", getenv("WEPE_ORT_PROFILE"), number++);
  return api.EnableProfiling(*out, prefix);
}

static const OrtApi* ORT_API_CALL get_api(uint32_t version) {
  const OrtApi* theirs = real->GetApi(version);
  if (theirs == NULL) return NULL;
  api = *theirs;
  create = api.CreateSessionOptions;
  api.CreateSessionOptions = create_set;
  return &api;
}

const OrtApiBase* OrtGetApiBase(void) {
  void* library = dlopen(getenv("WEPE_ORT"), RTLD_LAZY | RTLD_LOCAL);
  if (library == NULL) {
    fprintf(stderr, "%s\n", dlerror());
    exit(1);
  }
  const OrtApiBase* (*get_base)(void) = (const OrtApiBase* (*)(void))dlsym(library, "OrtGetApiBase");
  real = get_base();
  base = *real;
  base.GetApi = get_api;
  return &base;
}
