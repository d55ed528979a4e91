# SPDX-License-Identifier: Apache-2.0
"""Transformers."""

from __future__ import annotations

from workloads.networks.layers import INDEX, Layers
from workloads.networks.tape import TrainingStep, Value


def _attention(net: Layers, x: Value, source: Value, heads: int, *, dropout: bool) -> Value:
    """Multi-head attention of x [batch, tokens, width] to a source of the same kind."""
    batch, tokens, width = x.shape
    seen, depth = source.shape[1], width // heads

    def split(y: Value, length: int) -> Value:
        return net.copy(net.reshape(y, batch, heads, length, depth), batch * heads, length, depth)

    query = split(net.scale(net.linear(x, width)), tokens)
    key, value = (split(net.linear(source, width), seen) for _ in range(2))
    scores = net.matmul(
        query, net.reshape(key, batch * heads, depth, seen), (batch * heads, tokens, seen)
    )
    weights = net.softmax(scores)
    if dropout:
        weights = net.dropout(weights)
    mixed = net.matmul(weights, value, (batch * heads, tokens, depth))
    return net.linear(net.copy(net.reshape(mixed, batch, tokens, width), *x.shape), width)


def _feed_forward(net: Layers, x: Value, hidden: int, *, gelu: bool, dropout: bool) -> Value:
    y = net.linear(x, hidden)
    y = net.gelu(y) if gelu else net.relu(y, in_place=False)
    return net.linear(net.dropout(y) if dropout else y, x.shape[-1])


def _sum_and_norm(net: Layers, x: Value, y: Value) -> Value:
    return net.layer_norm(net.add(x, net.dropout(y)))


def transformer(batch: int, layers: int, heads: int, tokens: tuple[int, int]) -> TrainingStep:
    """`torch.nn.Transformer` of width 512: on sentences already embedded, source and target."""
    net = Layers()
    source, target = (net.tape.resident(batch, length, 512) for length in tokens)

    def feed_forward(x: Value) -> Value:
        return _sum_and_norm(net, x, _feed_forward(net, x, 2048, gelu=False, dropout=True))

    x = source
    for _ in range(layers):
        x = feed_forward(_sum_and_norm(net, x, _attention(net, x, x, heads, dropout=True)))
    memory = net.layer_norm(x)
    x = target
    for _ in range(layers):
        x = _sum_and_norm(net, x, _attention(net, x, x, heads, dropout=True))
        x = _sum_and_norm(net, x, _attention(net, x, memory, heads, dropout=True))
        x = feed_forward(x)
    return net.tape.training_step(net.total(net.layer_norm(x)))


def vision_transformer(batch: int, width: int, layers: int, heads: int) -> TrainingStep:
    """ViT on 224 x 224 images in patches of 16 x 16."""
    net = Layers()
    image = net.tape.resident(batch, 3, 224, 224)
    patches = net.convolution(image, width, 16, 16, bias=True)
    x = net.reshape(patches, batch, 196, width)
    token = net.stretch(net.tape.parameter(1, 1, width), batch)
    x = net.add_parameter(net.concatenate([token, x]))
    for _ in range(layers):
        y = net.layer_norm(x)
        x = net.add(_attention(net, y, y, heads, dropout=False), x)
        y = _feed_forward(net, net.layer_norm(x), 4 * width, gelu=True, dropout=False)
        x = net.add(x, y)
    logits = net.linear(net.first(net.layer_norm(x)), 1000)
    return net.tape.training_step(net.total(logits))


def encoder(batch: int, entries: int, tokens: int) -> TrainingStep:
    """A base-size encoder (12 layers of width 768, 514 positions), without a head."""
    net = Layers()
    words, places = (net.tape.resident(batch, tokens, item_bytes=INDEX) for _ in range(2))
    x = net.add(net.embedding(words, entries, 768), net.embedding(places, 514, 768))
    x = net.dropout(net.layer_norm(x))
    for _ in range(12):
        x = _sum_and_norm(net, x, _attention(net, x, x, 12, dropout=True))
        x = _sum_and_norm(net, x, _feed_forward(net, x, 3072, gelu=True, dropout=True))
    return net.tape.training_step(net.total(x))
