# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""A Python service for an image model, for comparison with wepe serve.

    python peer.py export vit_tiny_patch16_224 [FILE] # writes peer.onnx; needs timm, torch, onnx; FILE has weights
    python peer.py torch vit_tiny_patch16_224 8081    # needs fastapi, uvicorn, timm, torch
    python peer.py onnx peer.onnx 8082                # needs fastapi, uvicorn, pillow, numpy, onnxruntime
    python peer.py size torch                         # bytes on disk of the packages that torch (or onnx) needs

Without FILE the weights are random, because only time is compared. Preprocessing is timm's evaluation transform, which the service with
ONNX Runtime implements in Pillow and NumPy, without torch.
"""
import base64
import importlib.metadata
import io
import re
import sys

PACKAGES = {"torch": ["fastapi", "uvicorn", "pillow", "timm", "torch"],
            "onnx": ["fastapi", "uvicorn", "pillow", "numpy", "onnxruntime"]}


def size(names):
    """Bytes of installed packages and of all that they require."""
    seen, todo, total = set(), list(names), 0
    while todo:
        name = todo.pop().lower().replace("_", "-")
        if name in seen:
            continue
        seen.add(name)
        try:
            package = importlib.metadata.distribution(name)
        except importlib.metadata.PackageNotFoundError:
            continue  # for another platform
        total += sum(file.size or 0 for file in package.files or [])
        todo += [re.match(r"[\w.-]+", r)[0] for r in package.requires or [] if "extra ==" not in r]
    return total


def of_torch(name, weights=None):
    import timm
    import torch
    from PIL import Image

    torch.manual_seed(0)
    model = timm.create_model(name, num_classes=1000, checkpoint_path=weights).eval()
    transform = timm.data.create_transform(**timm.data.resolve_model_data_config(model), is_training=False)

    def predict(body):
        with torch.inference_mode():
            logits = model(transform(Image.open(io.BytesIO(body)).convert("RGB"))[None])
        values, labels = logits[0].softmax(-1).topk(5)
        return zip(values.tolist(), labels.tolist())

    return model, predict


def of_onnx(path):
    import numpy
    import onnxruntime
    from PIL import Image

    session = onnxruntime.InferenceSession(path)

    def pixels_of(body):
        image = Image.open(io.BytesIO(body)).convert("RGB")
        image = image.resize([248 * side // min(image.size) for side in image.size], Image.BICUBIC)  # as torchvision
        left, top = round((image.width - 224) / 2), round((image.height - 224) / 2)
        pixels = numpy.asarray(image.crop((left, top, left + 224, top + 224)), "float32").transpose(2, 0, 1)
        return (pixels / 255 - .5) / .5

    def embed(bodies):
        return session.run(["z"], {"x": numpy.stack([pixels_of(body) for body in bodies])})[0].tolist()

    def predict(body):
        logits = session.run(["y"], {"x": pixels_of(body)[None]})[0][0]
        odds = numpy.exp(logits - logits.max())
        top = numpy.argsort(-odds)[:5]
        return zip((odds[top] / odds.sum()).tolist(), top.tolist())

    return predict, embed


def serve(predict, port, embed=None):
    import uvicorn
    from fastapi import FastAPI, Request
    from fastapi.concurrency import run_in_threadpool

    app = FastAPI()

    @app.post("/v1/predict")
    async def read(request: Request):
        top = await run_in_threadpool(predict, await request.body())
        return {"labels": [{"label": str(label), "probability": value} for value, label in top]}

    @app.post("/v1/embeddings")
    async def embeddings(request: Request):
        asked = await request.json()
        bodies = [base64.b64decode(text.split(",", 1)[-1]) for text in asked["input"]]
        vectors = await run_in_threadpool(embed, bodies)
        return {"object": "list", "model": asked["model"], "usage": {"prompt_tokens": 0, "total_tokens": 0},
                "data": [{"object": "embedding", "index": i, "embedding": v} for i, v in enumerate(vectors)]}

    uvicorn.run(app, port=port, log_level="warning")


task, name = sys.argv[1:3]
if task == "size":
    print(size(PACKAGES[name]))
elif task == "export":
    import torch

    class Both(torch.nn.Module):
        """Logits, and the class token after the last norm."""

        def __init__(self, model):
            super().__init__()
            self.model = model

        def forward(self, x):
            tokens = self.model.forward_features(x)
            return self.model.forward_head(tokens), tokens[:, 0]

    torch.onnx.export(Both(of_torch(name, *sys.argv[3:])[0]), torch.zeros(1, 3, 224, 224), "peer.onnx", input_names=["x"],
                      output_names=["y", "z"], dynamic_axes={k: {0: "batch"} for k in "xyz"}, dynamo=False)
elif task == "torch":
    serve(of_torch(name)[1], int(sys.argv[3]))
else:
    predict, embed = of_onnx(name)
    serve(predict, int(sys.argv[3]), embed)
