// Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0

// Runs exported ONNX files in ONNX Runtime for Node and compares their logits with those written beside them.
//
// usage: node onnx_logits.mjs DIR [tolerance]
//
// DIR is what internal/tools/exports writes. onnxruntime-node is looked for from the directory node runs in. Exits with 1 if
// any logit is further off than the tolerance, in units of the greatest one or of 1.

import fs from "node:fs";
import { createRequire } from "node:module";
import path from "node:path";
import process from "node:process";

const ort = createRequire(path.join(process.cwd(), "x.js"))("onnxruntime-node");

function floats(file) {
  const raw = fs.readFileSync(file);
  return new Float32Array(raw.buffer.slice(raw.byteOffset, raw.byteOffset + raw.byteLength));
}

// [n, rows, cols, channels] -> [n, channels, rows, cols]
function channelsFirst(data, [n, rows, cols, channels]) {
  const out = new Float32Array(data.length);
  for (let i = 0; i < n; i++) {
    for (let k = 0; k < rows * cols; k++) {
      for (let c = 0; c < channels; c++) {
        out[(i * channels + c) * rows * cols + k] = data[(i * rows * cols + k) * channels + c];
      }
    }
  }
  return out;
}

const root = process.argv[2];
const tolerance = Number(process.argv[3] ?? 1e-4);
let compared = 0;
let failed = 0;
for (const name of fs.readdirSync(root).sort()) {
  const dir = path.join(root, name);
  const file = path.join(dir, "onnx", "model.onnx");
  if (!fs.existsSync(file)) {
    continue;
  }
  const about = JSON.parse(fs.readFileSync(path.join(dir, "case.json"), "utf8"));
  const [n, rows, cols, channels] = about.images;
  const session = await ort.InferenceSession.create(file);
  const pixels = channelsFirst(floats(path.join(dir, "images.f32")), about.images);
  const input = new ort.Tensor("float32", pixels, [n, channels, rows, cols]);
  const got = (await session.run({ pixel_values: input })).logits.data;
  const wanted = floats(path.join(dir, "logits.f32"));
  let worst = got.length === wanted.length ? 0 : Infinity;
  let scale = 0;
  for (let i = 0; i < wanted.length; i++) {
    const d = Math.abs(got[i] - wanted[i]);
    worst = d <= worst ? worst : d; // NaN is taken too
    scale = Math.max(scale, Math.abs(wanted[i]));
  }
  const ok = worst <= tolerance * Math.max(1, scale);
  compared++;
  failed += ok ? 0 : 1;
  console.log(`node  ${name.padEnd(14)} onnx  differs by ${worst.toPrecision(2)}, greatest logit ` +
    `${scale.toPrecision(3)}${ok ? "" : "  TOO FAR"}`);
}
if (compared === 0) {
  console.error(`onnx_logits.mjs: no ONNX file in ${root}`);
}
process.exit(compared === 0 || failed > 0 ? 1 : 0);
