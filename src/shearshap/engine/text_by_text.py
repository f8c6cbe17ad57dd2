"""The solver for text classifiers: every text is a game, since its words are its players."""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from shearshap.data.display import row_labels
from shearshap.engine.clock import Clock
from shearshap.engine.loop import explained_blocks
from shearshap.engine.meter import Meter
from shearshap.engine.run import Run
from shearshap.engine.sampling import NamedGame, labelled_blocks, open_game, rows_bar
from shearshap.engine.task import Task
from shearshap.models import Lease
from shearshap.models.huggingface import (
    FramedClassifier,
    Kind,
    Text,
    TextClassifier,
    check_text_model,
    player_kind,
    text_classifier,
)
from shearshap.result.explanation import Explanation


def solve(task: Task, run: Run, progress: bool | None) -> Iterator[Explanation] | None:
    """Return the explanations of texts, one after the other; None if the model takes no texts."""
    check_text_model(task.model, task.rows, task.background)
    classifier = _classifier(task.model)
    if classifier is None:
        return None
    return _explained(classifier, task, run, progress)


def _classifier(model: object) -> TextClassifier | None:
    """Return a `transformers` pipeline or a pair as a text classifier; None for other models."""
    library = type(model).__module__.partition(".")[0]
    if not isinstance(model, tuple) and library != "transformers":
        return None
    return text_classifier(model)


def _explained(
    classifier: TextClassifier, task: Task, run: Run, progress: bool | None
) -> Iterator[Explanation]:
    """Yield the explanation of each text, which has one row."""
    classifier.check(feature_names=task.feature_names)
    kind = player_kind(task.groups)
    absent = classifier.absent_token(task.background, task.background_word)
    texts = classifier.texts(task.rows, kind)
    index, index_name = row_labels(None, _text_labels(task), len(texts))
    clock = Clock(run.deadline)
    lease = Lease(classifier.model, task.device)
    try:
        meter = Meter()
        with rows_bar(progress, len(texts), "texts") as bar, lease:
            meter.show(bar)
            for number, text in enumerate(texts):
                with open_game(_text_task(task, classifier, text, absent), meter.asked) as game:
                    named = _named_text(game, text, number, index[[number]])
                    without_deadline = replace(run, deadline=None)
                    meter.expect(without_deadline.on(named.game).most_evaluations(named.game))
                    blocks = explained_blocks(named.game, without_deadline, meter=meter)
                    (explanation,) = labelled_blocks(named, blocks)
                names = list(text.names) if len(texts) == 1 else _places(text, kind)
                explanation = replace(
                    explanation,
                    feature_names=names,
                    data=None,
                    display_data=np.array([text.names], dtype=object),
                    index_name=index_name,
                )
                done = number + 1
                if done < len(texts) and not clock.allowed(1, done):
                    note = clock.warning(done, len(texts), "texts")
                    yield replace(explanation, notes=(*explanation.notes, note))
                    return
                yield explanation
    except BaseException:
        lease.give_back()  # an interrupt may have come while the model was being given back
        raise


def _text_labels(task: Task) -> Any:
    """Return the labels that the user passed or, for a Series of texts, its index."""
    own = getattr(task.rows, "index", None)
    if task.index is not None or callable(own):  # a list's `index` is a method
        return task.index
    return own


def _text_task(task: Task, classifier: TextClassifier, text: Text, absent: int) -> Task:
    """Return the task of one text: its tokens are the inputs, its players own them."""
    names = task.output_names
    if not names and not callable(task.output):
        names = classifier.output_names or None
    return replace(
        task,
        model=FramedClassifier(classifier.model, text),
        rows=text.row[None],
        background=torch.full((1, len(text.content)), absent),
        groups=np.array(text.owners),
        output_names=names,
        device=None,
        index=None,
    )


def _named_text(named: NamedGame, text: Text, number: int, label: NDArray[Any]) -> NamedGame:
    """Return the game of one text with its number among the texts, its label and its words."""
    game = replace(named.game, places=torch.tensor([number]))
    if number > 0:  # the first text tells whether the model answers as it should
        game = replace(game, untouched=None)
    inputs = replace(named.inputs, index=label)
    return replace(named, game=game, inputs=inputs, feature_names=text.names)


def _places(text: Text, kind: Kind) -> list[str]:
    """Return the names of a text's players by their place, "word 0" and so on.

    They are for several texts, whose words differ.
    """
    return [f"{kind.removesuffix('s')} {place}" for place in range(len(text.names))]
