"""OpenAI's official client works with a running server."""

import numpy as np
import pytest

openai = pytest.importorskip("openai")

from elmo import Elmo  # noqa: E402
from tests.serve.conftest import start_process  # noqa: E402

TEXTS = ["I went to the bank", "the river", "", "the money . the bank went to the river I went"]


@pytest.mark.slow
def test_the_default_model_is_served_under_its_own_name():
    """What a person writes who has started `elmo serve` and nothing else."""
    with start_process() as server:
        client = openai.OpenAI(base_url=f"{server.address}v1", api_key="none", max_retries=0)
        models = [(model.id, model.object) for model in client.models.list()]
        assert models == [("en-small", "model"), ("zh-small", "model")]
        expected = Elmo.from_pretrained().encode(TEXTS[0])
        for name in ("en-small", "default"):
            response = client.embeddings.create(model=name, input=TEXTS[0])
            np.testing.assert_allclose(response.data[0].embedding, expected, atol=1e-5)
            assert response.model == "en-small"
        with pytest.raises(openai.NotFoundError, match="Unknown model 'ada'"):
            client.embeddings.create(model="ada", input="a")


@pytest.mark.slow
def test_the_official_client_gets_the_vectors_of_encode(language_folder, language_model):
    with start_process(language_folder, ELMO_SERVE_API_KEY="secret") as server:
        client = openai.OpenAI(base_url=f"{server.address}v1", api_key="secret", max_retries=0)
        expected = language_model.encode(TEXTS)
        for options in ({}, {"encoding_format": "float"}, {"encoding_format": "base64"}):
            response = client.embeddings.create(model="language", input=TEXTS, **options)
            vectors = [entry.embedding for entry in response.data]
            if options.get("encoding_format") == "base64":
                continue  # whoever asks for base64 gets it as it came
            np.testing.assert_allclose(np.array(vectors), expected, atol=1e-6)
            assert response.usage.prompt_tokens == 18 and response.model == "language"
        single = client.embeddings.create(model="language", input=TEXTS[0]).data[0].embedding
        np.testing.assert_allclose(single, expected[0], atol=1e-6)
        assert [model.id for model in client.models.list()] == ["language"]
        with pytest.raises(openai.NotFoundError, match="Unknown model 'ada'"):
            client.embeddings.create(model="ada", input="a")
        with pytest.raises(openai.UnprocessableEntityError, match="dimensions is 5, .*leave it out"):
            client.embeddings.create(model="language", input="a", dimensions=5)
        with pytest.raises(openai.UnprocessableEntityError, match="Input should be a valid string"):
            client.embeddings.create(model="language", input=[[1, 2]])
        with pytest.raises(openai.AuthenticationError, match="The key is missing or wrong"):
            wrong = openai.OpenAI(base_url=f"{server.address}v1", api_key="wrong")
            wrong.embeddings.create(model="language", input="a")
