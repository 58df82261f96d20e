from __future__ import annotations

from genius.data.tasks import TASK_MODALITIES
from genius.demo.wording import PROMPTS, prompts, request


def test_requests_name_every_changed_attribute_in_several_wordings() -> None:
    change = {"tone": "dark", "hair": "beard"}
    wordings = {request(change, str(salt)) for salt in range(40)}
    assert len(wordings) > 3
    assert all("with dark skin tone and a beard" in wording for wording in wordings)
    assert request(change, "a") == request(change, "a")
    assert "as a woman, facing right" in request({"gender": "woman", "direction": "right"}, "1")


def test_every_task_has_four_prompts_of_its_own() -> None:
    texts = [text for task in PROMPTS for dataset in ("emoji", "fluent") for text in prompts(dataset, task)]
    assert set(PROMPTS) == set(TASK_MODALITIES) - {5}
    assert all(len(set(prompts(dataset, task))) == 4 for dataset in ("emoji", "fluent") for task in PROMPTS)
    assert not any("\t" in text for text in texts)
    assert len({text for task in PROMPTS for text in PROMPTS[task]}) == 4 * len(PROMPTS)
