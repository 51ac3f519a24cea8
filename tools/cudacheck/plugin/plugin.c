// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// A PJRT plugin for a machine without a GPU: large programs are compiled for NVIDIA's GPUs, and not run.
//
// It is the table of functions of a CPU plugin with two of them replaced. PJRT_Client_Compile hands a program to
// PJRT_Compile of the CUDA plugin, which needs no driver but a description of the GPU, and writes one line of JSON about
// the outcome. Then it fails, since there is nothing to run; the caller reads the line. Small programs, which set up
// weights and data, are compiled for the CPU as ever and run there.
//
// The name of the library must contain "cuda": go-xla then builds the programs that it builds for GPUs.
//
//   CUDACHECK_CPU, CUDACHECK_CUDA   paths of the two plugins
//   CUDACHECK_GPU                   path of a stream_executor.GpuTargetConfigProto as text
//   CUDACHECK_LOG                   path of the file that lines are appended to
//   CUDACHECK_SMALL                 programs of at most so many bytes are for the CPU
#include <dlfcn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "pjrt_c_api.h"

#define ARGS(type, name) type name = {.struct_size = type##_STRUCT_SIZE}

static PJRT_Api table;  // the CPU plugin's but for two functions
static const PJRT_Api *cpu, *cuda;
static PJRT_TopologyDescription *gpu;

static void fail(const char *what, const char *why) {
  fprintf(stderr, "cudacheck: %s: %s\n", what, why);
  exit(1);
}

static const char *setting(const char *name) {
  const char *value = getenv(name);
  if (!value || !*value) fail(name, "not set");
  return value;
}

static const PJRT_Api *plugin(const char *path) {
  void *library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (!library) fail(path, dlerror());
  const PJRT_Api *(*get)(void) = dlsym(library, "GetPjrtApi");
  if (!get) fail(path, "not a PJRT plugin");
  return get();
}

// text of an error of the CUDA plugin, NULL for none; the caller frees it.
static char *text(PJRT_Error *error) {
  if (!error) return NULL;
  ARGS(PJRT_Error_Message_Args, message);
  message.error = error;
  cuda->PJRT_Error_Message(&message);
  char *copy = strndup(message.message, message.message_size);
  ARGS(PJRT_Error_Destroy_Args, destroy);
  destroy.error = error;
  cuda->PJRT_Error_Destroy(&destroy);
  return copy;
}

static PJRT_NamedValue named(const char *name, const char *value, size_t size) {
  ARGS(PJRT_NamedValue, v);
  v.name = name, v.name_size = strlen(name), v.type = PJRT_NamedValue_kString;
  v.string_value = value, v.value_size = size;
  return v;
}

static void describe_gpu(void) {
  static char description[1 << 16];
  const char *path = setting("CUDACHECK_GPU");
  FILE *f = fopen(path, "r");
  if (!f) fail(path, "cannot be read");
  size_t size = fread(description, 1, sizeof description, f);
  fclose(f);
  cuda = plugin(setting("CUDACHECK_CUDA"));
  ARGS(PJRT_Plugin_Initialize_Args, initialize);
  char *error = text(cuda->PJRT_Plugin_Initialize(&initialize));
  if (error) fail("PJRT_Plugin_Initialize", error);
  const PJRT_NamedValue options[] = {named("target_config", description, size), named("topology", "1x1x1", 5)};
  ARGS(PJRT_TopologyDescription_Create_Args, create);
  create.topology_name = "", create.create_options = options, create.num_options = 2;
  if ((error = text(cuda->PJRT_TopologyDescription_Create(&create)))) fail(path, error);
  gpu = create.topology;
}

// put writes a JSON string.
static void put(FILE *f, const char *s) {
  fputc('"', f);
  for (; *s; s++) {
    if (*s == '"' || *s == '\\') fputc('\\', f);
    if ((unsigned char)*s >= ' ') fputc(*s, f);
    else fprintf(f, "\\u%04x", *s);
  }
  fputc('"', f);
}

static PJRT_Error *compile(PJRT_Client_Compile_Args *args) {
  if (args->program->code_size <= (size_t)atol(setting("CUDACHECK_SMALL"))) return cpu->PJRT_Client_Compile(args);
  if (!cuda) describe_gpu();
  ARGS(PJRT_Compile_Args, c);
  c.topology = gpu, c.program = args->program;
  c.compile_options = args->compile_options, c.compile_options_size = args->compile_options_size;
  struct timespec before, after;
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &before);
  char *error = text(cuda->PJRT_Compile(&c));
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &after);
  ARGS(PJRT_Executable_GetCompiledMemoryStats_Args, memory);
  if (!error) {
    memory.executable = c.executable;
    error = text(cuda->PJRT_Executable_GetCompiledMemoryStats(&memory));
    ARGS(PJRT_Executable_Destroy_Args, destroy);
    destroy.executable = c.executable;
    free(text(cuda->PJRT_Executable_Destroy(&destroy)));
  }
  FILE *log = fopen(setting("CUDACHECK_LOG"), "a");
  if (!log) fail(setting("CUDACHECK_LOG"), "cannot be written");
  fprintf(log, "{\"error\":");
  put(log, error ? error : "");
  fprintf(log, ",\"cpu_seconds\":%.2f,\"temporary_bytes\":%lld,\"peak_bytes\":%lld,\"alias_bytes\":%lld}\n",
          after.tv_sec - before.tv_sec + (after.tv_nsec - before.tv_nsec) * 1e-9,
          (long long)memory.temp_size_in_bytes, (long long)memory.peak_memory_in_bytes,
          (long long)memory.alias_size_in_bytes);
  fclose(log);
  free(error);

  PJRT_Program nothing = *args->program;  // whose refusal by the CPU plugin is the error to return
  nothing.code = "compiled for CUDA, not to run";
  nothing.code_size = strlen(nothing.code);
  PJRT_Client_Compile_Args refused = *args;
  refused.program = &nothing;
  return cpu->PJRT_Client_Compile(&refused);
}

static PJRT_Error *create(PJRT_Client_Create_Args *args) {
  args->create_options = NULL, args->num_options = 0;  // they are a GPU's
  return cpu->PJRT_Client_Create(args);
}

__attribute__((visibility("default"))) const PJRT_Api *GetPjrtApi(void) {
  if (!cpu) {
    cpu = plugin(setting("CUDACHECK_CPU"));
    size_t size = cpu->struct_size < sizeof table ? cpu->struct_size : sizeof table;
    memcpy(&table, cpu, size);
    table.struct_size = size;
    table.PJRT_Client_Compile = compile;
    table.PJRT_Client_Create = create;
  }
  return &table;
}
