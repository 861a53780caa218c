"""Checkpoints in Megatron-LM's layout: iter_0000100/ folders and a file that names the latest."""

import os

import torch

TRACKER = "latest_checkpointed_iteration.txt"
FILE = "checkpoint.pt"


def folder_of(root, iteration):
    return os.path.join(root, f"iter_{iteration:07d}")


def latest_iteration(root):
    """Returns the iteration that the tracker file names, or None where there is no tracker."""
    try:
        with open(os.path.join(root, TRACKER)) as file:
            return int(file.read().strip())
    except FileNotFoundError:
        return None


def save(root, iteration, consumed, model, optimizer):
    """Writes the checkpoint, then moves the tracker on: a reader never sees half a checkpoint."""
    folder = folder_of(root, iteration)
    os.makedirs(folder, exist_ok=True)
    # Moments are kept by parameter name and in one form, so that a run may resume with another
    # optimizer form than the one that saved. Clones, as torch.save writes a view's whole storage.
    moments = {name: (steps, first.detach().clone(), second.detach().clone())
               for name, (steps, first, second) in optimizer.moments().items()}
    weights = {name: p.detach().clone() for name, p in model.named_parameters()}
    _replace(os.path.join(folder, FILE),
             lambda path: torch.save({"iteration": iteration, "consumed_train_samples": consumed,
                                      "model": weights, "moments": moments}, path))
    _replace(os.path.join(root, TRACKER), lambda path: _write_text(path, str(iteration)))


def load(root, iteration, device):
    """Returns what `save` wrote at `iteration`."""
    return torch.load(os.path.join(folder_of(root, iteration), FILE), map_location=device)


def _write_text(path, text):
    with open(path, "w") as file:
        file.write(text)


def _replace(path, write):
    temporary = path + ".part"
    write(temporary)
    os.replace(temporary, path)
