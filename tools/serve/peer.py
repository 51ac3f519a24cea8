# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""The usual Python service for an image model, to compare wepe serve with.

    pip install fastapi uvicorn pillow timm torch onnxruntime
    python peer.py torch vit_tiny_patch16_224 8081
    python peer.py onnx vit_tiny_patch16_224 8082     # the same weights through onnxruntime

The weights are random: only the time is compared. Preprocessing is timm's evaluation transform.
"""
import io
import os
import sys

import timm
import torch
import uvicorn
from fastapi import FastAPI, Request
from fastapi.concurrency import run_in_threadpool
from PIL import Image

engine, name, port = sys.argv[1], sys.argv[2], int(sys.argv[3])
torch.manual_seed(0)
model = timm.create_model(name, num_classes=1000).eval()
transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)
if engine == "onnx":
    import onnxruntime

    if not os.path.exists("peer.onnx"):
        torch.onnx.export(model, torch.zeros(1, 3, 224, 224), "peer.onnx", input_names=["x"],
                          output_names=["y"], dynamo=False)
    session = onnxruntime.InferenceSession("peer.onnx")

app = FastAPI()


@app.post("/v1/predict")
async def read(request: Request):
    return await run_in_threadpool(predict, await request.body())


def predict(body: bytes):
    image = transform(Image.open(io.BytesIO(body)).convert("RGB"))[None]
    if engine == "onnx":
        logits = torch.from_numpy(session.run(None, {"x": image.numpy()})[0])
    else:
        with torch.inference_mode():
            logits = model(image)
    values, labels = logits[0].softmax(-1).topk(5)
    return {"labels": [{"label": str(i.item()), "probability": v.item()} for v, i in zip(values, labels)]}


uvicorn.run(app, port=port, log_level="warning")
