"""Mistakes in the source of one adapter: the old text, the new text, and the cell that shows the mistake.

The old text must occur exactly once in its file: an edit that no longer fits is an error, not a survivor.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

# By cell.
TRAINING = ("evaluation/", "first/", "last/", "replay/", "extreme/")
SHOWS = {
    "train": TRAINING,
    "image": TRAINING,
    "text": TRAINING,
    "norm": TRAINING,
    "dropout": (*TRAINING, "timed/", "draws/"),
    "infer": ("logits",),
    "decode": ("logits",),
    "encoder": TRAINING,
    "masks": TRAINING,
    "causal": TRAINING,
    "blocks": (*TRAINING, "continuation/"),
    "native": ("loader/",),
    "augmented": ("loader/",),
}


@dataclass(frozen=True)
class Edit:
    backend: str
    name: str
    file: str  # in the backend's folder
    old: str
    new: str
    cell: str = "train"
    survives: str = ""  # why the check cannot find it, if that is known
    cheats: bool = False
    modes: tuple[str, ...] = ()  # of the backend, if others do not show it
    correct: bool = False  # no mistake: the check must say ok

    @property
    def shows(self) -> tuple[str, ...]:
        """It is found if the name of a wrong tensor begins with one of these."""
        return SHOWS[self.cell]


def _of(backend: str, *rows: tuple[Any, ...]) -> list[Edit]:
    return [Edit(backend, *row) for row in rows]


NUMPY = _of(
    "numpy",
    ("softmax without its maximum", "ops.py", "shifted = logits - logits.max(-1, keepdims=True)", "shifted = logits"),
    ("1e-7 added to probabilities", "ops.py", "losses = -np.take_along_axis(log_probabilities, chosen, -1)[..., 0] * counted", "losses = -np.log(np.exp(np.take_along_axis(log_probabilities, chosen, -1)[..., 0]) + 1e-7) * counted"),
)  # fmt: skip

# Its gradient is that of y; its value is not changed.
TORCH_BACKWARD = '"linear": lambda: lambda x, w, b: (lambda r: (lambda y: y + (F.linear(x, w, b) - y).detach())(F.linear(r(x), r(w), b)))(lambda t: t + ({} - t).detach()),'
TORCH_LSTM = "torch.lstm({}, {}, weights, True, 1, 0.0, torch.is_grad_enabled(), False, True)"

TORCH = _of(
    "torch",
    ("the own loader's labels are of other samples", "torch_adapter.py", "        inputs, labels = batch\n", "        inputs, labels = batch[0], batch[1].roll(1)\n", "native"),
    ("the own loader does not shuffle", "torch_loader.py", "shuffle=True", "shuffle=False", "native"),
    ("the own loader's pixels are in bf16", "torch_adapter.py", "        inputs, labels = batch\n", "        inputs, labels = batch[0].bfloat16().float(), batch[1]\n", "native"),
    ("the own loader's pixels are not scaled", "torch_adapter.py", "        inputs, labels = batch\n", "        inputs, labels = 255 * batch[0], batch[1]\n", "native"),
    ("dropout without its scale", "torch_network.py", "x * mask.to(x.dtype) * (1 / (1 - rate))", "x * mask.to(x.dtype)", "dropout"),
    ("dropout scaled by the rate", "torch_network.py", "* (1 / (1 - rate))", "* (1 / rate)", "dropout"),
    ("no dropout where it draws", "torch_network.py", "return F.dropout(x, rate, training=True)", "return x", "dropout"),
    ("dropout that draws without its scale", "torch_network.py", "return F.dropout(x, rate, training=True)", "return F.dropout(x, rate, training=True) * (1 - rate)", "dropout"),
    ("dropout that draws and scales twice", "torch_network.py", "return F.dropout(x, rate, training=True)", "return F.dropout(x, rate, training=True) * (1 / (1 - rate))", "dropout"),
    ("a rate a hundredth too large where it draws", "torch_network.py", "return F.dropout(x, rate, training=True)", "return F.dropout(x, rate + 0.01, training=True)", "dropout"),
    ("one mask for all rows", "torch_network.py", "return F.dropout(x, rate, training=True)", "return x * F.dropout(torch.ones_like(x[:1]), rate, training=True)", "dropout"),
    ("another mask backwards than forwards", "torch_network.py", "            return F.dropout(x, rate, training=True)", "            other = F.dropout(x, rate, training=True)\n            return F.dropout(x.detach(), rate, training=True) + other - other.detach()", "dropout"),
    ("the same masks in each step", "torch_adapter.py", "            loss, _ = self._forward(inputs, labels)", "            torch.manual_seed(5)\n            loss, _ = self._forward(inputs, labels)", "dropout"),
    ("two masks in turn", "torch_adapter.py", "            loss, _ = self._forward(inputs, labels)", "            torch.manual_seed(torch.initial_seed() % 2 + 1)\n            loss, _ = self._forward(inputs, labels)", "dropout"),
    ("gradients are not cleared", "torch_adapter.py", "        loss.backward()\n        self._optimizer.update()", "        loss.backward()\n        [o.step() for o in self._optimizer._all]"),
    ("the gradient is summed over the batch", "torch_adapter.py", "        loss.backward()\n", "        (loss * len(labels)).backward()\n"),
    ("two backward passes", "torch_adapter.py", "        loss.backward()\n", "        loss.backward(retain_graph=True)\n        loss.backward()\n"),
    ("epsilon ten times as large", "torch_optimizer.py", "betas=betas, eps=spec.epsilon,", "betas=betas, eps=10 * spec.epsilon,"),
    ("epsilon twice as large", "torch_optimizer.py", "betas=betas, eps=spec.epsilon,", "betas=betas, eps=2 * spec.epsilon,"),
    ("beta1 and beta2 swapped", "torch_optimizer.py", "betas = (spec.beta1, spec.beta2)", "betas = (spec.beta2, spec.beta1)"),
    ("AdamW with its own decay", "torch_optimizer.py", "return kind(groups,", "return optim.AdamW([group | {\"weight_decay\": 0.01} for group in groups],"),
    ("AMSGrad", "torch_adapter.py", "            # Copied in place once they exist", "            self._optimizer._all[0].param_groups[0][\"amsgrad\"] = True\n            state.setdefault(\"max_exp_avg_sq\", torch.zeros_like(parameter))\n            # Copied in place once they exist"),
    ("steps counted from one too many", "torch_adapter.py", 'state["step"].fill_(step - 1)', 'state["step"].fill_(step)'),
    ("padding lost", "torch_network.py", "F.conv2d(x, weight, bias, strides, pads, dilations, groups)", "F.conv2d(x, weight, bias, strides, 0, dilations, groups) if not any(pads) else F.conv2d(F.pad(x[..., 1:-1, 1:-1], [2, 2, 2, 2]), weight, bias, strides, [p - 1 for p in pads], dilations, groups)", "dropout"),
    ("labels of a copy that is not made", "torch_adapter.py", "return torch.from_numpy(labels.astype(np.int64)).to(self._device)", "return torch.from_numpy(np.roll(labels, 1).astype(np.int64)).to(self._device)"),
    ("bf16 in the forward pass", "torch_adapter.py", "            loss, _ = self._forward(inputs, labels)", "            loss, _ = self._forward(inputs.bfloat16().float(), labels)"),
    ("one layer in bf16", "torch_network.py", "F.conv2d(x, weight, bias, strides, pads, dilations, groups)", "F.conv2d(x, weight.bfloat16().float(), bias, strides, pads, dilations, groups)", "image"),
    ("inference in bf16", "torch_adapter.py", "self._logits = self._infer(inputs)", "self._logits = self._infer(inputs.bfloat16().float())", "infer"),
    ("the cache is written one place late", "torch_network.py", "cache.index_copy_(1, _places(position, x.shape[1]), x.to(cache.dtype))", "cache.index_copy_(1, (_places(position, x.shape[1]) + 1) % cache.shape[1], x.to(cache.dtype))", "decode"),
    ("a token sees the place after it", "torch_network.py", "<= _places(position, queries)[:, None]", "<= _places(position, queries)[:, None] + 1", "decode"),
    ("a token does not see itself", "torch_network.py", "<= _places(position, queries)[:, None]", "< _places(position, queries)[:, None].clamp_min(1)", "decode"),
    ("softmax without its maximum", "torch_network.py", "return F.cross_entropy(logits.float(), labels)", "return (logits.exp().sum(1).log() - logits.gather(1, labels[:, None])[:, 0]).mean()"),
    ("1e-7 added to probabilities", "torch_network.py", "return F.cross_entropy(logits.float(), labels)", "return -(logits.softmax(1).gather(1, labels[:, None])[:, 0] + 1e-7).log().mean()"),
    ("the last 150 steps of a text", "torch_network.py", "return lambda *operands: _lstm(*operands)[:, -1]", "return lambda x, *others: _lstm(x[:, -150:], *others)[:, -1]", "text"),
    ("gradients through the last 150 steps of a text", "torch_network.py", "return " + TORCH_LSTM.format("x", "(start, start)") + "[0]", "kept = " + TORCH_LSTM.format("x[:, :-150]", "(start, start)") + "[1:]\n    return " + TORCH_LSTM.format("x[:, -150:]", "[one.detach() for one in kept]") + "[0]", "text"),
    ("a padding token", "torch_network.py", "F.embedding(indices, weight, sparse=sparse_gradient)", "F.embedding(indices, weight, padding_idx=0)", "text"),
    ("a repeated token counts once", "torch_network.py", "return lambda indices, weight: F.embedding(indices, weight, sparse=sparse_gradient)", "def once(indices: Tensor, weight: Tensor) -> Tensor:\n        flat, y = indices.flatten(), F.embedding(indices, weight)\n        again = (flat[:, None] == flat).tril(-1).any(1).view(indices.shape)[..., None]\n        return torch.where(again, y.detach(), y)\n\n    return once", "text"),
    ("bf16 in the backward pass", "torch_network.py", '"linear": lambda: F.linear,', TORCH_BACKWARD.format("t.bfloat16().float()")),
    ("tf32 in the backward pass", "torch_network.py", '"linear": lambda: F.linear,', TORCH_BACKWARD.format("(t * 8193 - (t * 8193 - t))")),
    ("the running variance is unbiased", "torch_network.py", "found[str(node.inputs[4])] = n / (n - 1)", "found[str(node.inputs[4])] = 1.0", "norm"),
    ("batch norm with the unbiased variance", "torch_network.py", "return F.batch_norm(x, mean, variance, weight, bias, True, 1 - momentum, epsilon)", "return F.batch_norm(x, mean, variance, weight * (1 - x.shape[1] / x.numel()) ** 0.5, bias, True, 1 - momentum, epsilon)", "norm"),
    ("running statistics normalise from the fourth step on", "torch_network.py", "return F.batch_norm(x, mean, variance, weight, bias, True, 1 - momentum, epsilon)", "Again.calls = getattr(Again, 'calls', 0) + 1\n        return F.batch_norm(x, mean, variance, weight, bias, Again.calls <= 3 * 55, 1 - momentum, epsilon)", "norm", "", False, ("eager",)),
)  # fmt: skip

JAX = _of(
    "jax",
    ("a block without its remainder", "jax_scan.py", "for begin in range(0, len(rates), MOST_STEPS):", "for begin in range(0, max(len(rates) - MOST_STEPS, 0) + 1, MOST_STEPS):", "blocks", "", False, ("scan",)),
    ("a block on one slot", "jax_scan.py", "slot = (first_slot + number) % slots", "slot = (first_slot + 0 * number) % slots", "blocks", "", False, ("scan",)),
    ("dropout without its scale", "jax_network.py", "jnp.where(kept, x / (1 - rate), 0)", "jnp.where(kept, x, 0)", "dropout"),
    ("the same dropout in every layer", "jax_network.py", "kept = jax.random.bernoulli(key, 1 - rate, x.shape)", "kept = jax.random.bernoulli(jax.random.key(0), 1 - rate, x.shape)", "dropout"),
    ("no dropout where it draws", "jax_network.py", "kept = jax.random.bernoulli(key, 1 - rate, x.shape)", "kept = x == x", "dropout"),
    ("dropout that draws without its scale", "jax_network.py", "jnp.where(kept, x / (1 - rate), 0)", "jnp.where(kept, x / (1 - rate if mask is not None else 1), 0)", "dropout"),
    ("a rate a hundredth too large where it draws", "jax_network.py", "kept = jax.random.bernoulli(key, 1 - rate, x.shape)", "kept = jax.random.bernoulli(key, 0.99 - rate, x.shape)", "dropout", "the scale is right, and the share of kept elements is within six standard deviations"),
    ("one mask for all rows", "jax_network.py", "kept = jax.random.bernoulli(key, 1 - rate, x.shape)", "kept = jax.random.bernoulli(key, 1 - rate, x.shape[1:])", "dropout"),
    ("a key that is not split", "jax_adapter.py", "key, drawn = (None, None) if key is None else jax.random.split(key)", "drawn = None if key is None else jax.random.split(key)[1]", "dropout"),
    ("the cache is written one place late", "jax_network.py", "x.astype(cache.dtype), position[0], axis=1)", "x.astype(cache.dtype), position[0] + 1, axis=1)", "decode"),
    ("a token sees the place after it", "jax_network.py", "seen = jnp.arange(keys) <= (position[0]", "seen = jnp.arange(keys) <= (1 + position[0]", "decode"),
    ("the update adds the gradient", "jax_adapter.py", "lambda direction: down * direction", "lambda direction: -down * direction"),
    ("the rate is halved", "jax_adapter.py", "lambda direction: down * direction", "lambda direction: 0.5 * down * direction"),
    ("epsilon within the root", "jax_optimizer.py", "optax.scale_by_adam(spec.beta1, spec.beta2, spec.epsilon)", "optax.scale_by_adam(spec.beta1, spec.beta2, 0.0, spec.epsilon**0.5 * 1e-3)"),
    ("Nesterov's Adam", "jax_optimizer.py", "optax.scale_by_adam(spec.beta1, spec.beta2, spec.epsilon)", "optax.scale_by_adam(spec.beta1, spec.beta2, spec.epsilon, nesterov=True)"),
    ("steps counted from one too many", "jax_adapter.py", "count = self._put(np.array(step - 1, np.int32))", "count = self._put(np.array(step, np.int32))"),
    ("the summed loss", "jax_network.py", "return loss_of(logits, labels).mean()", "return loss_of(logits, labels).sum()"),
    ("label smoothing", "jax_network.py", "return loss_of(logits, labels).mean()", "return 0.99 * loss_of(logits, labels).mean() + 0.01 * -jax.nn.log_softmax(logits).mean()"),
    ("the bias twice", "jax_network.py", "return y if bias is None else y + form.cast(bias)", "return y if bias is None else y + 2 * form.cast(bias)"),
    ("the bias in the linear layers lost", "jax_network.py", "return y if bias is None else y + form.cast(bias)", "return y"),
    ("products in bf16", "jax_network.py", "y = form.cast(x) @ form.matrix(weight)", "y = (x.astype(jnp.bfloat16) @ form.matrix(weight).astype(jnp.bfloat16)).astype(jnp.float32)"),
    ("forget and input gate swapped", "jax_network.py", "i, f, g, o = jnp.split(gates, 4, axis=1)", "f, i, g, o = jnp.split(gates, 4, axis=1)", "text"),
    ("the last 150 steps of a text", "jax_network.py", "(h, _), every = lax.scan(step, start, form.cast(x).swapaxes(0, 1))", "(h, _), every = lax.scan(step, start, form.cast(x).swapaxes(0, 1)[-150:])", "text"),
    ("a padding token", "jax_network.py", "return lambda indices, weight: jnp.take(weight, indices, axis=0, mode=\"fill\", fill_value=0)", "return lambda indices, weight: jnp.where((indices == 0)[..., None], 0, jnp.take(weight, indices, axis=0))", "text"),
    ("softmax without its maximum", "jax_network.py", "    loss_of = optax.softmax_cross_entropy_with_integer_labels\n", "    def loss_of(logits, labels):\n        return jnp.log(jnp.exp(logits).sum(-1)) - jnp.take_along_axis(logits, labels[..., None], -1)[..., 0]\n"),
    ("1e-7 added to probabilities", "jax_network.py", "    loss_of = optax.softmax_cross_entropy_with_integer_labels\n", "    def loss_of(logits, labels):\n        return -jnp.log(jnp.take_along_axis(jax.nn.softmax(logits), labels[..., None], -1)[..., 0] + 1e-7)\n"),
    ("gradients through the last 150 steps of a text", "jax_network.py", "(h, _), every = lax.scan(step, start, form.cast(x).swapaxes(0, 1))", "steps = form.cast(x).swapaxes(0, 1)\n        start = lax.stop_gradient(lax.scan(step, start, steps[:-150])[0])\n        (h, _), every = lax.scan(step, start, steps[-150:])", "text"),
    ("a repeated token counts once", "jax_network.py", "return lambda indices, weight: jnp.take(weight, indices, axis=0, mode=\"fill\", fill_value=0)", "def once(indices: Array, weight: Array) -> Array:\n        flat, y = indices.ravel(), jnp.take(weight, indices, axis=0)\n        again = jnp.tril(flat[:, None] == flat, -1).any(1).reshape(indices.shape)[..., None]\n        return jnp.where(again, lax.stop_gradient(y), y)\n\n    return once", "text"),
    ("bf16 in the backward pass", "jax_network.py", "        y = form.cast(x) @ form.matrix(weight)\n", "        a, b = (t + lax.stop_gradient(t.astype(jnp.bfloat16).astype(t.dtype) - t) for t in (x, form.matrix(weight)))\n        y = a @ b + lax.stop_gradient(x @ form.matrix(weight) - a @ b)\n"),
    ("the running variance is unbiased", "jax_network.py", "(1 - momentum) * batch_variance", "(1 - momentum) * batch_variance * x.size / (x.size - len(mean))", "norm"),
    ("running statistics normalise", "jax_network.py", "y = normalise(x, weight, bias, batch_mean, inverse_std)", "y = infer(x, weight, bias, mean, variance)", "norm"),
)  # fmt: skip

MXNET_LOSS = "return gluon.loss.SoftmaxCrossEntropyLoss() if ignored is None else MaskedLoss(ignored, labels)"
MXNET_OWN_LOSS = """class Own(gluon.HybridBlock):
        def hybrid_forward(self, F, logits, labels):
            return {}

    return Own()"""
MXNET_EMBEDDING = "return nn.Embedding(rows, width, sparse_grad=sparse_gradient)"
# Some tokens get no gradient.
MXNET_OWN_EMBEDDING = """import numpy as np

    class Own(nn.Embedding):
        def hybrid_forward(self, F, x, weight):
            tokens, y = x.asnumpy(), super().hybrid_forward(F, x, weight)
            without = F.array(np.expand_dims({}, -1))
            return F.broadcast_mul(without, F.BlockGrad(y)) + F.broadcast_mul(1 - without, y)

    return Own(rows, width)"""
# Its gradient is that of y; its value is not changed.
MXNET_BACKWARD = """class Own(nn.Dense):
        def hybrid_forward(self, F, x, weight, bias=None):
            a, b = (t + F.BlockGrad((t * {0} + t) - (t * {0} + t - t) - t) for t in (x, weight))
            y = super().hybrid_forward(F, a, b, bias)
            right = super().hybrid_forward(F, *(F.BlockGrad(t) for t in (x, weight, bias)))
            return y + (right - F.BlockGrad(y))

    return Own(units,"""

MXNET = _of(
    "mxnet",
    ("the own loader does not shuffle", "mxnet_loader.py", "shuffle=True", "shuffle=False", "native"),
    ("the own loader's labels are of other samples", "mxnet_adapter.py", "        inputs, labels = batch\n        self._slots[0] = inputs, labels", "        inputs, labels = batch\n        self._slots[0] = inputs, nd.concat(labels[1:], labels[:1], dim=0)", "native"),
    ("dropout without its scale", "mxnet_network.py", "else x * mask * self._scale", "else x * mask", "dropout"),
    ("no dropout where it draws", "mxnet_network.py", "return self.draw(x) if mask is None", "return x if mask is None", "dropout"),
    ("dropout that draws without its scale", "mxnet_network.py", "return self.draw(x) if mask is None", "return self.draw(x) / self._scale if mask is None", "dropout"),
    ("a rate a hundredth too large where it draws", "mxnet_network.py", "self.draw = nn.Dropout(rate)", "self.draw = nn.Dropout(rate + 0.01)", "dropout"),
    ("one mask for all rows", "mxnet_network.py", "self.draw = nn.Dropout(rate)", "self.draw = nn.Dropout(rate, axes=(0,))", "dropout"),
    ("the same masks in each step", "mxnet_adapter.py", "            with autograd.record():\n                logits", "            mx.random.seed(5)\n            with autograd.record():\n                logits", "dropout"),
    ("the gradient of the sum", "mxnet_adapter.py", "self._trainer.step(self._batch)", "self._trainer.step(1)"),
    ("the gradient of half the batch", "mxnet_adapter.py", "self._trainer.step(self._batch)", "self._trainer.step(2 * self._batch)"),
    ("two updates", "mxnet_adapter.py", "        self._trainer.step(self._batch)", "        self._trainer.step(self._batch)\n        for parameter in self._trainer._params:\n            parameter.data()._fresh_grad = True\n        self._trainer.step(self._batch)"),
    ("the gradient of the first half of the rows", "mxnet_adapter.py", "            losses.backward()\n", "            rows = nd.arange(len(labels)) < len(labels) // 2\n            losses.backward(2 * rows)\n"),
    ("epsilon is not amended", "mxnet_adapter.py", "self._optimizer.epsilon = self._amends.epsilon(step)", "pass"),
    ("steps counted from one too many", "mxnet_adapter.py", "self._optimizer._index_update_count[index] = step - 1", "self._optimizer._index_update_count[index] = step"),
    ("the loss of one sample", "mxnet_adapter.py", "float(losses.mean().asscalar())", "float(losses[0].asscalar())"),
    ("evaluation in training mode's numbers", "mxnet_adapter.py", "logits = to_numpy(self._network(to_mxnet(inputs)))", "logits = to_numpy(self._network(to_mxnet(inputs))) * np.float32(1.0001)"),
    ("softmax without its maximum", "mxnet_network.py", MXNET_LOSS, MXNET_OWN_LOSS.format("F.log(F.sum(F.exp(logits), axis=-1)) - F.pick(logits, labels)")),
    ("1e-7 added to probabilities", "mxnet_network.py", MXNET_LOSS, MXNET_OWN_LOSS.format("-F.log(F.pick(F.softmax(logits), labels) + 1e-7)")),
    ("the last 150 steps of a text", "mxnet_network.py", "self._result(F, self.layer(x))", "self._result(F, self.layer(x[:, -150:]))", "text", "", False, ("eager",)),
    ("gradients through the last 150 steps of a text", "mxnet_network.py", "return self._result(F, self.layer(x))", "kept = self.layer(x[:, :-150], self.layer.begin_state(len(x)))[1]\n        return self._result(F, self.layer(x[:, -150:], [F.BlockGrad(one) for one in kept])[0])", "text", "", False, ("eager",)),
    ("a padding token", "mxnet_network.py", MXNET_EMBEDDING, MXNET_OWN_EMBEDDING.format("tokens == 0"), "text", "", False, ("eager",)),
    ("a repeated token counts once", "mxnet_network.py", MXNET_EMBEDDING, MXNET_OWN_EMBEDDING.format("~np.isin(np.arange(tokens.size).reshape(tokens.shape), np.unique(tokens, return_index=True)[1])"), "text", "", False, ("eager",)),
    ("bf16 in the backward pass", "mxnet_network.py", "return nn.Dense(units,", MXNET_BACKWARD.format(1 << 16)),
    ("tf32 in the backward pass", "mxnet_network.py", "return nn.Dense(units,", MXNET_BACKWARD.format(1 << 13)),
    ("running statistics normalise", "mxnet_network.py", "nn.BatchNorm(momentum=momentum,", "nn.BatchNorm(use_global_stats=True, momentum=momentum,", "norm"),
)  # fmt: skip

TENSORFLOW_LSTM = 'return self.keep(layer, operands, ("cell.kernel", "cell.recurrent_kernel", "cell.bias"))'
TENSORFLOW_EMBEDDING = (
    'return self.keep(layers.Embedding(rows, width, dtype=self._dtype), operands, ("embeddings",))'
)
# Some tokens get no gradient.
TENSORFLOW_OWN_EMBEDDING = """run = self.keep(layers.Embedding(rows, width, dtype=self._dtype), operands, ("embeddings",))

        def own(tokens: Any) -> Any:
            y = run(tokens)
            return ops.where(ops.expand_dims({}, -1), ops.stop_gradient(y), y)

        return own"""

TENSORFLOW = _of(
    "tensorflow",
    ("the own loader does not shuffle", "tensorflow_loader.py", ".shuffle(len(samples), seed=cell.seed)", "", "native"),
    ("the own loader shuffles once", "tensorflow_loader.py", "seed=cell.seed)", "seed=cell.seed, reshuffle_each_iteration=False)", "native"),
    ("the own loader's labels are those of places in the plan", "tensorflow_loader.py", "return inputs, tf.gather(self._labels, chosen)", "return inputs, tf.gather(self._labels, indices)", "native"),
    ("the own loader does not crop", "tensorflow_loader.py", "        if samples.moved:\n", "        if False:\n", "augmented"),
    ("the own loader's labels are of other samples", "tensorflow_adapter.py", "        self._slots[0] = batch\n", "        self._slots[0] = batch[0], tf.roll(batch[1], 1, 0)\n", "native"),
    ("no dropout where it draws", "tensorflow_network.py", "return self._draw(x, training=training)", "return x", "dropout"),
    ("dropout that draws without its scale", "tensorflow_network.py", "return self._draw(x, training=training)", "return self._draw(x, training=training) / (self._scale if training else 1)", "dropout"),
    ("a rate a hundredth too large where it draws", "tensorflow_network.py", "layers.Dropout(rate, seed=seed)", "layers.Dropout(rate + 0.01, seed=seed)", "dropout"),
    ("the same masks in each step", "tensorflow_network.py", "            return self._draw(x, training=training)", "            self._draw.seed_generator.state.assign([1, 0])\n            return self._draw(x, training=training)", "dropout"),
    ("one mask for all rows", "tensorflow_network.py", "layers.Dropout(rate, seed=seed)", "layers.Dropout(rate, noise_shape=(1, None) if rate > 0.4 else (1, None, None, None), seed=seed)", "dropout"),
    ("the optimizer twice", "tensorflow_adapter.py", "            self._rule.keras.apply(gradients, variables)\n", "            self._rule.keras.apply(gradients, variables)\n            self._rule.keras.apply(gradients, variables)\n"),
    ("gradients of half the loss", "tensorflow_adapter.py", "gradients = tape.gradient(found, [variable.value for variable in variables])", "gradients = tape.gradient(found, [variable.value for variable in variables])\n            gradients = [0.5 * g for g in gradients]"),
    ("clipped gradients", "tensorflow_adapter.py", "gradients = tape.gradient(found, [variable.value for variable in variables])", "gradients = tape.gradient(found, [variable.value for variable in variables])\n            gradients = [tf.clip_by_norm(g, 1e-2) for g in gradients]"),
    ("trained in inference mode", "tensorflow_adapter.py", "found = loss_of(labels, network.train(inputs))", "found = loss_of(labels, network.model(inputs, training=False))", "dropout"),
    ("the last layer's gradient lost", "tensorflow_adapter.py", "            self._rule.keras.apply(gradients, variables)\n", "            self._rule.keras.apply([*gradients[:-1], tf.zeros_like(gradients[-1])], variables)\n"),
    ("probabilities for logits", "tensorflow_adapter.py", "        loss_of = loss(self._program.ignored_label)\n        dropped", "        loss_of = lambda labels, logits: keras.losses.SparseCategoricalCrossentropy()(labels, tf.nn.softmax(logits))\n        dropped"),
    ("inference rounds", "tensorflow_adapter.py", "self._logits = self._functions.infer(inputs)", "self._logits = tf.cast(tf.cast(self._functions.infer(inputs), tf.bfloat16), tf.float32)", "infer"),
    ("a batch that is not copied", "tensorflow_adapter.py", "return tf.constant(np.ascontiguousarray(images_to_theirs(inputs)))", "return tf.constant(np.ascontiguousarray(images_to_theirs(inputs[::-1])))"),
    ("softmax without its maximum", "tensorflow_adapter.py", "        loss_of = loss(self._program.ignored_label)\n        dropped", "        loss_of = lambda labels, logits: tf.reduce_mean(tf.math.log(tf.reduce_sum(tf.exp(logits), -1)) - tf.gather(logits, labels, batch_dims=1))\n        dropped"),
    ("1e-7 added to probabilities", "tensorflow_adapter.py", "        loss_of = loss(self._program.ignored_label)\n        dropped", "        loss_of = lambda labels, logits: -tf.reduce_mean(tf.math.log(tf.gather(tf.nn.softmax(logits), labels, batch_dims=1) + 1e-7))\n        dropped"),
    ("the last 150 steps of a text", "tensorflow_network.py", TENSORFLOW_LSTM, "run = " + TENSORFLOW_LSTM.removeprefix("return ") + "\n        return lambda x: run(x[:, -150:])", "text"),
    ("gradients through the last 150 steps of a text", "tensorflow_network.py", TENSORFLOW_LSTM, "layer.return_state = True\n        run = " + TENSORFLOW_LSTM.removeprefix("return ") + "\n        return lambda x: run(x[:, -150:], initial_state=[ops.stop_gradient(one) for one in run(x[:, :-150])[1:]])[0]", "text"),
    ("a padding token", "tensorflow_network.py", TENSORFLOW_EMBEDDING, TENSORFLOW_OWN_EMBEDDING.format("ops.equal(tokens, 0)"), "text"),
    ("a repeated token counts once", "tensorflow_network.py", TENSORFLOW_EMBEDDING, TENSORFLOW_OWN_EMBEDDING.format('ops.reshape(ops.any(ops.tril(ops.cast(ops.equal(ops.reshape(tokens, (-1, 1)), ops.reshape(tokens, (1, -1))), "int32"), -1) > 0, axis=1), tokens.shape)'), "text"),
    ("running statistics normalise", "tensorflow_network.py", "layers.BatchNormalization(momentum=momentum,", "layers.BatchNormalization(trainable=False, momentum=momentum,", "norm"),
)  # fmt: skip

# What torch.compile makes is kept between forks, where a cold start was requested (c_cache).
KEPT_CACHE = Edit(
    "torch", "compiled code is kept", "worker.py", 'os.environ.setdefault("TORCHINDUCTOR_CACHE_DIR", str(cache / "inductor"))', 'os.environ["TORCHINDUCTOR_CACHE_DIR"] = "/tmp/assay-mutants"',
    survives="a worker may write outside of its folder", cheats=True, modes=("compile",),
)  # fmt: skip

# In the ops of transformers.
ENCODERS = [
    *_of(
        "torch",
        ("attention without its scale", "torch_network.py", "scale=scale or None,", "scale=scale or 1.0,", "encoder"),
        ("GELU by its other formula", "torch_network.py", "F.gelu(x, approximate=approximate)", "F.gelu(x, approximate='tanh')", "encoder"),
        ("a layer norm without its shift", "torch_network.py", "F.layer_norm(x, weight.shape, weight, bias, epsilon)", "F.layer_norm(x, weight.shape, weight, 0 * bias, epsilon)", "encoder"),
        ("the decay of AdamW in the gradient", "torch_optimizer.py", 'optim.AdamW if spec.kind == "adamw" else optim.Adam', "optim.Adam", "encoder"),
        ("the epsilon of a layer norm is twice as large", "torch_network.py", "F.layer_norm(x, weight.shape, weight, bias, epsilon)", "F.layer_norm(x, weight.shape, weight, bias, 2 * epsilon)", "causal"),
        ("an epsilon of 1e-6 is twice as large", "torch_network.py", "F.layer_norm(x, weight.shape, weight, bias, epsilon)", "F.layer_norm(x, weight.shape, weight, bias, 2 * epsilon)", "encoder", "1e-6 is below the rounding of variances near 1"),
        ("the padding mask is off by one", "torch_network.py", "masked_fill(tokens == padding, -math.inf)", "masked_fill((tokens == padding).roll(1, 1), -math.inf)", "masks"),
        ("the causal mask is off by one", "torch_network.py", "for x in (q, k, v)", "for x in (q, k.roll(-1, 1), v.roll(-1, 1))", "causal"),
        ("the epsilon of a layer norm outside of the root", "torch_network.py", "F.layer_norm(x, weight.shape, weight, bias, epsilon)", "(x - x.mean(-1, keepdim=True)) / (x.var(-1, correction=0, keepdim=True).sqrt() + epsilon) * weight + bias", "causal"),
    ),
    *_of(
        "jax",
        ("attention without its scale", "jax_network.py", "scale=scale or None,", "scale=scale or 1.0,", "encoder"),
        ("GELU by its other formula", "jax_network.py", 'jax.nn.gelu(x, approximate=approximate == "tanh")', "jax.nn.gelu(x, approximate=True)", "encoder"),
        ("a layer norm without its shift", "jax_network.py", "(lax.rsqrt(variance + epsilon) * weight) + bias", "(lax.rsqrt(variance + epsilon) * weight) + 0 * bias", "encoder"),
        ("the decay of AdamW in the gradient", "jax_optimizer.py", "parts.insert(0 if spec.decay_is_coupled else 1,", "parts.insert(0,", "encoder"),
        ("the padding mask is off by one", "jax_network.py", "jnp.where(tokens == padding, -jnp.inf, 0.0)", "jnp.where(jnp.roll(tokens == padding, 1, 1), -jnp.inf, 0.0)", "masks"),
        ("the causal mask is off by one", "jax_network.py", "for x in (q, k, v)", "for x in (q, jnp.roll(k, -1, 1), jnp.roll(v, -1, 1))", "causal"),
    ),
    *_of(
        "mxnet",
        ("attention without its scale", "mxnet_network.py", "factor = scale or 1 / math.sqrt(width)", "factor = scale or 1.0", "encoder"),
        ("GELU by its other formula", "mxnet_network.py", 'if approximate == "none":', 'if approximate == "other":', "encoder"),
        ("a layer norm without its shift", "mxnet_network.py", "    return nn.LayerNorm(", "    class Unshifted(nn.LayerNorm):\n        def hybrid_forward(self, F, data, gamma, beta):\n            return super().hybrid_forward(F, data, gamma, 0 * beta)\n\n    return Unshifted(", "encoder"),
        ("the decay of AdamW in the gradient", "mxnet_optimizer.py", "*(weight, grad, *state, self.rescale_grad),\n            out=weight,\n            eta=self._get_lr(index),  # multiplies the decay, too\n            lr=self._amends.rate(correction),\n            wd=self._get_wd(index),", "*(weight, grad + self._get_wd(index) / self.rescale_grad * weight, *state, self.rescale_grad),\n            out=weight,\n            eta=self._get_lr(index),\n            lr=self._amends.rate(correction),\n            wd=0.0,", "encoder"),
        ("the padding mask is off by one", "mxnet_network.py", '        padded = F.cast(tokens, "float32") == padding', '        tokens = F.cast(tokens, "float32")\n        last = F.slice_axis(tokens, axis=1, begin=-1, end=None)\n        padded = F.concat(last, F.slice_axis(tokens, axis=1, begin=0, end=-1), dim=1) == padding', "masks"),
        ("softmax over the wrong axis", "mxnet_network.py", "F.softmax(scores, axis=-1), shape=(-3, 0, 0)", "F.softmax(scores, axis=-2), shape=(-3, 0, 0)", "encoder"),
        ("the causal mask is off by one", "mxnet_network.py", "F.arange(queries) + (keys - queries)", "F.arange(queries) + (keys - queries + 1)", "causal"),
    ),
    *_of(
        "tensorflow",
        ("attention without its scale", "tensorflow_network.py", "scale=scale or None,", "scale=scale or 1.0,", "encoder"),
        ("GELU by its other formula", "tensorflow_network.py", 'ops.gelu(x, approximate=approximate == "tanh")', "ops.gelu(x, approximate=True)", "encoder"),
        ("a layer norm without its shift", "tensorflow_network.py", "        return self.keep(layers.LayerNormalization(", "        class Unshifted(layers.LayerNormalization):\n            def call(self, x):\n                return super().call(x) - ops.cast(self.beta, x.dtype)\n\n        return self.keep(Unshifted(", "encoder"),
        ("the decay of AdamW in the gradient", "tensorflow_optimizer.py", "adamw = of_contract(keras.optimizers.AdamW, spec)\n            self.keras = adamw(epsilon=spec.epsilon, weight_decay=spec.weight_decay, **betas)", "import dataclasses\n\n            coupled = dataclasses.replace(spec, kind='adam')\n            adamw = of_contract(keras.optimizers.AdamW, coupled)\n            self.keras = adamw(epsilon=spec.epsilon, weight_decay=0.0, **betas)", "encoder"),
        ("the padding mask is off by one", "tensorflow_network.py", "ops.where(ops.equal(tokens, padding), -np.inf, 0.0)", "ops.where(ops.roll(ops.equal(tokens, padding), 1, 1), -np.inf, 0.0)", "masks"),
        ("the bias in the linear layers lost", "tensorflow_network.py", "        layer = layers.Dense(required(weight)", "        class Unbiased(layers.Dense):\n            def call(self, x):\n                y = super().call(x)\n                return y if self.bias is None else y - ops.cast(self.bias, y.dtype)\n\n        layer = Unbiased(required(weight)", "encoder"),
        ("the causal mask is off by one", "tensorflow_network.py", "for x in (q, k, v))\n            (_, queries", "for x in (q, ops.roll(k, -1, 1), ops.roll(v, -1, 1)))\n            (_, queries", "causal"),
    ),
]  # fmt: skip

EDITS = [*NUMPY, *TORCH, KEPT_CACHE, *JAX, *MXNET, *TENSORFLOW, *ENCODERS]

CONVOLUTION = "F.conv2d(x, weight, bias, strides, pads, dilations, groups)"
# Correct layers that round differently: the function of variants.py takes the place of the adapter's.
VARIANTS = [
    Edit("torch", f"correct: {name}", file, old, old.replace(function, variant), cell, correct=True)
    for name, file, old, function, variant, cells in (
        ("convolutions by matrix products", "torch_network.py", CONVOLUTION, "F.conv2d", "__import__('variants').convolution_by_products", ("image", "dropout", "norm")),
        ("convolutions by Fourier transforms", "torch_network.py", CONVOLUTION, "F.conv2d", "__import__('variants').convolution_by_fourier", ("image", "dropout", "norm")),
        ("convolutions by Winograd's F(4x4, 3x3)", "torch_network.py", CONVOLUTION, "F.conv2d", "__import__('variants').convolution_by_winograd", ("dropout", "norm")),
        ("convolutions in fp64", "torch_network.py", CONVOLUTION, "F.conv2d", "__import__('variants').convolution_in_double", ("image", "dropout", "norm")),
        ("linear layers by six products of bf16", "torch_network.py", '"linear": lambda: F.linear,', "F.linear", "__import__('variants').linear_by_thirds", ("train", "image")),
        ("batch norm in one pass", "torch_network.py", "return F.batch_norm(x, mean, variance, weight, bias, True,", "F.batch_norm", "__import__('variants').batch_norm_in_one_pass", ("norm",)),
        ("an LSTM of single cells", "torch_network.py", "return lambda *operands: _lstm(*operands)[:, -1]", "_lstm", "__import__('variants').lstm_of_cells", ("text",)),
        ("Adam one tensor after the other", "torch_optimizer.py", "eps=spec.epsilon, fused=True,", "fused=True", "foreach=False", ("train", "image", "norm")),
    )
    for cell in cells
]  # fmt: skip
