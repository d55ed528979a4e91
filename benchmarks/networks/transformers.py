"""Transformers of OLLA's set."""

from __future__ import annotations

from networks.layers import Layers
from networks.tape import TrainingStep, Value

TOKENS = 128
"""Tokens of a sentence."""


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


def transformer(batch: int) -> TrainingStep:
    """The base transformer: 6 + 6 layers of width 512, on embedded sentences; its outputs' mean."""
    net = Layers()
    source = net.tape.resident(batch, TOKENS, 512)
    target = net.tape.resident(batch, TOKENS, 512)

    def feed_forward(x: Value) -> Value:
        return _sum_and_norm(net, x, _feed_forward(net, x, 2048, gelu=False, dropout=True))

    x = source
    for _ in range(6):
        x = feed_forward(_sum_and_norm(net, x, _attention(net, x, x, 8, dropout=True)))
    memory = net.layer_norm(x)
    x = target
    for _ in range(6):
        x = _sum_and_norm(net, x, _attention(net, x, x, 8, dropout=True))
        x = _sum_and_norm(net, x, _attention(net, x, memory, 8, dropout=True))
        x = feed_forward(x)
    return net.tape.training_step([net.mean_pool(net.layer_norm(x))])


def vit_b_16(batch: int) -> TrainingStep:
    """ViT-B/16 on 224 x 224 images."""
    net = Layers()
    image = net.tape.resident(batch, 3, 224, 224)
    patches = net.convolution(image, 768, 16, 16, bias=True)
    x = net.reshape(patches, batch, 196, 768)
    x = net.add_parameter(net.concatenate([net.tape.parameter(batch, 1, 768), x]))
    for _ in range(12):
        y = net.layer_norm(x)
        x = net.add(_attention(net, y, y, 12, dropout=False), x)
        y = _feed_forward(net, net.layer_norm(x), 3072, gelu=True, dropout=False)
        x = net.add(x, y)
    logits = net.linear(net.first(net.layer_norm(x)), 1000)
    return net.tape.training_step([net.cross_entropy(logits)])


def _encoder(
    batch: int, entries: int, positions: int, *, layers: int, classes: int
) -> TrainingStep:
    """A base-size encoder (width 768) that classifies sentences."""
    net = Layers()
    tokens = net.tape.resident(batch, TOKENS, item_bytes=8)
    places = net.tape.resident(batch, TOKENS, item_bytes=8)
    x = net.add(net.embedding(tokens, entries, 768), net.embedding(places, positions, 768))
    x = net.dropout(net.layer_norm(x))
    for _ in range(layers):
        x = _sum_and_norm(net, x, _attention(net, x, x, 12, dropout=True))
        x = _sum_and_norm(net, x, _feed_forward(net, x, 3072, gelu=True, dropout=True))
    x = net.dropout(net.tanh(net.linear(net.dropout(net.first(x)), 768)))
    return net.tape.training_step([net.cross_entropy(net.linear(x, classes))])


def bert(batch: int) -> TrainingStep:
    """BERT-base."""
    return _encoder(batch, 30_522, 512, layers=12, classes=2)


def xlm_r(batch: int) -> TrainingStep:
    """XLM-R base."""
    return _encoder(batch, 250_002, 514, layers=12, classes=2)
