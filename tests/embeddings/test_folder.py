"""A model of the operator's own is named by its folder: any language, its own generation, refused where it is wrong."""

from pathlib import Path

import numpy as np
import pytest
from pydantic import ValidationError

from embeddings.errors import ModelMismatch
from embeddings.protocol import ReadsSomeScripts, UnderstandsSomeLanguages
from embeddings.registry import create_embedder
from embeddings.settings import MODEL_FILES, EmbeddingSettings
from tests.embeddings.sentence_models import make_sentence_model
from tests.tables import each_row

WORDS = (("train", "zug"), ("late", "spät"), ("soup", "suppe"), ("hot", "heiß"))


def settings_of(folder: Path) -> EmbeddingSettings:
    return EmbeddingSettings(model=str(folder))


async def test_a_question_finds_a_text_in_another_language(tmp_path: Path) -> None:
    embedder = create_embedder(settings_of(make_sentence_model(tmp_path / "model", WORDS)), tmp_path)
    await embedder.load()
    question, train, soup = await embedder.embed(["train late", "Zug spät", "Suppe heiß"])
    assert (embedder.name, question.shape) == ("model", (384,))
    assert np.linalg.norm(question) == pytest.approx(1)
    assert question @ train > 0.99
    assert question @ soup < 0.5
    assert not isinstance(embedder, ReadsSomeScripts | UnderstandsSomeLanguages)
    await embedder.close()


def test_another_model_has_another_generation_and_the_same_one_wherever_it_is_has_its_own(tmp_path: Path) -> None:
    def generation(name: str, seed: int) -> int:
        folder = make_sentence_model(tmp_path / name, WORDS, seed=seed)
        return create_embedder(settings_of(folder), tmp_path).generation

    one, copy, other = generation("one", 1), generation("copy", 1), generation("other", 2)
    assert one == copy != other
    assert min(one, other) >= 1000


@pytest.mark.parametrize("dimensions", [1, 128, 1024, 4000])
async def test_the_dimension_of_a_model_is_found_when_it_is_loaded(tmp_path: Path, dimensions: int) -> None:
    embedder = create_embedder(
        settings_of(make_sentence_model(tmp_path / "model", WORDS, dimensions=dimensions)), tmp_path
    )
    await embedder.load()
    vectors = await embedder.embed(["train late", "soup"])
    assert (embedder.dimensions, vectors.shape) == (dimensions, (2, dimensions))
    assert np.linalg.norm(vectors, axis=1) == pytest.approx(1)
    await embedder.close()


async def test_a_model_of_more_than_4000_numbers_is_refused_when_it_is_loaded(tmp_path: Path) -> None:
    folder = make_sentence_model(tmp_path / "large", WORDS, dimensions=4001)
    with pytest.raises(ModelMismatch, match="4001 numbers; 4000 is the most"):
        await create_embedder(settings_of(folder), tmp_path).load()


@pytest.mark.parametrize("name", MODEL_FILES)
def test_a_folder_without_a_file_of_the_model_is_refused_in_the_settings(tmp_path: Path, name: str) -> None:
    folder = make_sentence_model(tmp_path / "model", WORDS)
    (folder / name).unlink()
    with pytest.raises(ValidationError, match=f"there is no {name}"):
        settings_of(folder)


@each_row("model", ["model", "./model", "a/b/c", "../a/b"])
def test_a_model_is_an_absolute_path_or_a_name_of_the_hub(model: str) -> None:
    with pytest.raises(ValidationError, match="neither an absolute path nor a name"):
        EmbeddingSettings(model=model)
