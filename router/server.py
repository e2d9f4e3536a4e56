"""Put the service together, then run it: the composition root.

Only here are sessions, clients and indexes made, secrets read, the clock and the randomness
chosen. Everything else is handed what it needs.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import signal
import uuid
from collections.abc import Callable
from typing import Self

import structlog

from cache.decision_memory import DecisionMemory
from router.admin_service import CacheAdminServicer
from router.admission import Admission
from router.answer_cache import AnswerCache
from router.answering import TextAnswering, Tiers
from router.clock import Clock
from router.config import Settings
from router.deciding import Decider
from router.ledger import DecisionLedger
from router.logs import configure_logs
from router.malformed import MalformedRequestInterceptor
from router.metrics import Metrics, MetricsEndpoint
from router.namespacing import ModelRevisions
from router.observing import CallInterceptor, ObservedRouter
from router.pipeline import Pipeline
from router.reading import Reader
from router.service import RouterServicer
from router.transport import Transport, is_loopback
from router.typed_answering import TypedAnswering
from router.v1 import router_pb2_grpc as pb_grpc
from router.wiring import (
    LoadedEncoder,
    LoadedTier,
    decision_rules,
    load_encoder,
    make_authenticator,
    make_cache,
    make_fast_tier,
    make_slow_tier,
)

# What callers report on, they report within a day; a decision takes about 300 bytes.
_LEDGER_ENTRIES = 50_000
_LEDGER_TTL_S = 86_400.0
# Between the end of the last call's work and its reply on the wire.
_FLUSH_S = 0.5
_POLL_S = 0.02

_log = structlog.get_logger(__name__)


class Service:
    """The whole service in one process; make it with `build`.

    Attributes:
        router: Answers validated requests, counted and logged.
    """

    def __init__(
        self,
        settings: Settings,
        *,
        router: ObservedRouter,
        transport: Transport,
        admission: Admission,
        metrics: Metrics,
        loaded: LoadedEncoder,
        tiers: tuple[LoadedTier, ...],
    ) -> None:
        self.router = router
        self._settings = settings
        self._transport = transport
        self._admission = admission
        self._metrics = metrics
        self._loaded = loaded
        self._tiers = tiers
        self._port = 0
        self._endpoint: MetricsEndpoint | None = None

    @classmethod
    def build(
        cls,
        settings: Settings,
        *,
        encoder: LoadedEncoder | None = None,
        clock: Clock | None = None,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> Self:
        """Load models, make clients; blocks for as long as loading takes.

        Must run where an event loop runs, which the gRPC server belongs to.

        Args:
            settings: The validated configuration.
            encoder: Used in place of the configured artifact.
            clock: Time.
            new_id: Returns a fresh decision id, 32 hexadecimal digits.

        Raises:
            ConfigError: Naming the setting.
            ArtifactError: Naming the file of the artifact.
        """
        clock = clock or Clock()
        authenticator = make_authenticator(settings)
        loaded = encoder or load_encoder(settings)
        rules = decision_rules(settings, loaded)
        slow = make_slow_tier(settings, clock)
        fast = make_fast_tier(settings, clock)
        tiers = tuple(tier for tier in (fast, slow) if tier is not None)
        metrics = Metrics(
            version=importlib.metadata.version("fastslow"),
            encoder_revision=rules.encoder_revision,
            config_revision=rules.config_revision,
        )
        cache = make_cache(settings, loaded, clock)
        decider = Decider(rules, clock=clock, new_id=new_id)
        answering = Tiers(
            fast=None if fast is None else fast.tier,
            slow=None if slow is None else slow.tier,
            output_tokens=settings.limits.output_tokens,
            over_budget=decider.slow_over_budget,
            observe=metrics.step,
        )
        pipeline = Pipeline(
            reader=Reader(
                loaded.encoder,
                decider,
                DecisionMemory(
                    ttl_s=settings.cache.decision_ttl_s,
                    max_entries=settings.cache.max_entries,
                    clock=clock.monotonic_s,
                ),
                clock=clock,
            ),
            decider=decider,
            answers=AnswerCache(
                cache,
                revisions=ModelRevisions(
                    encoder=rules.encoder_revision,
                    text_models=tuple(m for loaded in tiers for m in loaded.tier.models),
                    system_prompts=tuple(p for loaded in tiers for p in loaded.tier.system_prompts),
                ),
                semantic=settings.cache.semantic.enabled,
                observe=metrics.cache,
            ),
            ledger=DecisionLedger(
                max_entries=_LEDGER_ENTRIES, ttl_s=_LEDGER_TTL_S, clock=clock.monotonic_s
            ),
            text=TextAnswering(answering, clock=clock),
            typed=TypedAnswering(answering, clock=clock),
            clock=clock,
        )
        router = ObservedRouter(pipeline, metrics=metrics, user_text=settings.log.user_text)
        admission = Admission(
            limit=settings.limits.in_flight, retry_after_s=settings.limits.retry_after_s
        )
        metrics.follow_in_flight(lambda: admission.in_flight)
        transport = Transport(
            settings.server,
            settings.limits,
            interceptors=[CallInterceptor(metrics, clock=clock), MalformedRequestInterceptor()],
        )
        pb_grpc.add_RouterServiceServicer_to_server(
            RouterServicer(
                router,
                authenticator=authenticator,
                admission=admission,
                limits=settings.limits,
                clock=clock,
            ),
            transport.server,
        )
        pb_grpc.add_CacheAdminServiceServicer_to_server(
            CacheAdminServicer(cache, authenticator=authenticator), transport.server
        )
        return cls(
            settings,
            router=router,
            transport=transport,
            admission=admission,
            metrics=metrics,
            loaded=loaded,
            tiers=tiers,
        )

    @property
    def port(self) -> int:
        """The gRPC port, once started."""
        return self._port

    @property
    def metrics_port(self) -> int | None:
        """The port of the metrics, once started; ``None`` where they are switched off."""
        return None if self._endpoint is None else self._endpoint.port

    async def start(self) -> None:
        """Take the ports, warm the encoder up, then report SERVING.

        Raises:
            ConfigError: Naming the port that is taken or the TLS file at fault.
        """
        config = self._settings.server
        try:
            # First, because gRPC gives a port that it has taken back only with the process.
            if config.metrics_port is not None:
                self._endpoint = MetricsEndpoint(
                    self._metrics.registry, host=config.metrics_host, port=config.metrics_port
                )
            self._port = self._transport.bind()
            await self._transport.set_starting()
            await self._transport.server.start()
            await asyncio.to_thread(self._loaded.warm_up)
            await self._transport.set_serving()
        except BaseException:
            await self.stop(0.0)
            raise

    async def stop(self, drain_s: float) -> None:
        """Refuse new calls, wait for those that run, then free everything.

        Args:
            drain_s: Time that running calls get, seconds; what is left then is cancelled.
        """
        await self._transport.set_stopping()
        self._admission.drain()
        loop = asyncio.get_running_loop()
        ends_s = loop.time() + drain_s
        # Nobody but a drain waits for calls to end, so counting them needs no event.
        while self._admission.in_flight and loop.time() < ends_s:  # noqa: ASYNC110
            await asyncio.sleep(_POLL_S)
        # Health watchers hold their calls open for ever, so this is no wait for everybody.
        await self._transport.server.stop(min(_FLUSH_S, drain_s))
        for loaded in self._tiers:
            await loaded.close()
        self._loaded.close()
        if self._endpoint is not None:
            await asyncio.to_thread(self._endpoint.close)


async def serve(
    settings: Settings, *, on_serving: Callable[[Service], None] = lambda _: None
) -> None:
    """Run the service until SIGTERM or SIGINT, then drain.

    Args:
        settings: The validated configuration.
        on_serving: Called once with the started service.

    Raises:
        ConfigError: Naming the setting that keeps it from starting.
        ArtifactError: Naming the file of the encoder that is damaged.
    """
    configure_logs(settings.log)
    stopped = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopped.set)
    service = Service.build(settings)
    await service.start()
    drain_s = settings.server.drain_s
    try:
        if _is_open_to_the_network(settings):
            _log.warning("open_to_the_network", host=settings.server.host, setting="auth.tokens")
        _log.info(
            "serving",
            port=service.port,
            metrics_port=service.metrics_port,
            config_revision=settings.revision,
        )
        on_serving(service)
        await stopped.wait()
        _log.info("draining", drain_s=drain_s)
    finally:
        await service.stop(drain_s)
        _log.info("stopped")


def _is_open_to_the_network(settings: Settings) -> bool:
    """Return whether anybody who reaches the address may call."""
    tls = settings.server.tls
    clients_known = tls is not None and tls.client_ca_file is not None
    return not (is_loopback(settings.server.host) or settings.auth.tokens or clients_known)
