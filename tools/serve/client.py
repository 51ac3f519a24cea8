# Copyright 2026 The wepe Authors. SPDX-License-Identifier: Apache-2.0
"""Embeds images through OpenAI's client: python client.py http://127.0.0.1:8080 (of the demo model "vit")"""
import base64
import pathlib
import sys

import openai


FOLDER = pathlib.Path(__file__).parents[2] / "data/testdata/pillow"


def main(address, model="vit"):
    client = openai.OpenAI(base_url=address + "/v1", api_key="unused", max_retries=0)
    images = [base64.b64encode((FOLDER / name).read_bytes()).decode() for name in ("rgb.jpg", "grey.png", "turned6.jpg")]
    all = client.embeddings.create(model=model, input=images)  # the client asks for base64
    assert [e.index for e in all.data] == list(range(len(images))) and all.model.endswith(model), all
    assert all.usage.prompt_tokens == all.usage.total_tokens > 0, all.usage
    for image, entry in zip(images, all.data):
        one = client.embeddings.create(model=model, input="data:image/png;base64," + image, encoding_format="float")
        far = max(abs(a - b) for a, b in zip(one.data[0].embedding, entry.embedding, strict=True))
        assert far <= 1e-5, f"the embedding in a batch differs by {far} from the one alone"
    for wrong, error in (({"model": "other"}, openai.NotFoundError), ({"input": "!"}, openai.BadRequestError),
                         ({"dimensions": 2}, openai.BadRequestError)):
        try:
            client.embeddings.create(**{"model": model, "input": images[0]} | wrong)
        except error:
            continue
        raise AssertionError(f"{wrong} is accepted")
    print(f"OpenAI {openai.__version__}: {len(images)} embeddings of {len(all.data[0].embedding)} features")


main(*sys.argv[1:])
