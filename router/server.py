"""Put the service together: the composition root.

Only here are sessions, clients and indexes made, secrets read, the clock and the randomness
chosen. Everything else is handed what it needs.
"""

from __future__ import annotations

import asyncio
import importlib.metadata
import uuid
from collections.abc import Callable
from typing import Self

from cache.decision_memory import DecisionMemory
from fast_tier.text_engine import TextEngine
from router.admin_service import CacheAdminServicer
from router.admission import Admission
from router.answer_cache import AnswerCache
from router.answering import TextAnswering, Tiers
from router.clock import Clock
from router.config import Settings
from router.deciding import Decider
from router.draining import DrainInterceptor
from router.ledger import DecisionLedger
from router.loading import in_thread
from router.malformed import MalformedRequestInterceptor
from router.metrics import Metrics
from router.metrics_endpoint import MetricsEndpoint
from router.namespacing import ModelRevisions
from router.observing import CallInterceptor, ObservedRouter
from router.pipeline import Pipeline
from router.preflight import check_settings
from router.reading import Reader
from router.service import RouterServicer
from router.transport import Transport
from router.typed_answering import TypedAnswering
from router.v1 import router_pb2_grpc as pb_grpc
from router.wiring import (
    LoadedEncoder,
    LoadedTier,
    decision_rules,
    load_encoder,
    load_engine,
    make_authenticator,
    make_cache,
    make_fast_tier,
    make_slow_tier,
)

# What callers report on, they report within a day; a decision takes about 300 bytes.
_LEDGER_ENTRIES = 50_000
_LEDGER_BYTES = 16 * 1024 * 1024
_LEDGER_TTL_S = 86_400.0


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
        servicer: RouterServicer,
        calls: DrainInterceptor,
        metrics: Metrics,
        encoder: LoadedEncoder,
        tiers: tuple[LoadedTier, ...],
    ) -> None:
        self.router = router
        self._settings = settings
        self._transport = transport
        self._servicer = servicer
        self._calls = calls
        self._metrics = metrics
        self._encoder = encoder
        self._tiers = tiers
        self._port = 0
        self._endpoint: MetricsEndpoint | None = None

    @classmethod
    async def load(cls, settings: Settings, *, clock: Clock | None = None) -> Self:
        """Check the configuration, load the models side by side, then `build`.

        The event loop stays free meanwhile. Cancelled, it ends at once.

        Args:
            settings: The validated configuration.
            clock: Time.

        Raises:
            ConfigError: One line a mistake, each naming its setting or file.
            ArtifactError: Naming the file of the artifact that cannot be loaded.
        """
        await in_thread(lambda: check_settings(settings), discard=lambda _: None)
        encoder = asyncio.ensure_future(in_thread(lambda: load_encoder(settings), discard=_close))
        engine = asyncio.ensure_future(in_thread(lambda: load_engine(settings), discard=_close))
        try:
            await asyncio.gather(encoder, engine)
            return cls.build(
                settings, encoder=encoder.result(), engine=engine.result(), clock=clock
            )
        except BaseException:
            for task in (encoder, engine):
                # Those that still load are freed when they are done.
                if not task.cancel() and not task.cancelled() and task.exception() is None:
                    _close(task.result())
            raise

    @classmethod
    def build(
        cls,
        settings: Settings,
        *,
        encoder: LoadedEncoder,
        engine: TextEngine | None = None,
        clock: Clock | None = None,
        new_id: Callable[[], str] = lambda: uuid.uuid4().hex,
    ) -> Self:
        """Put the parts together and make clients; `load` gives the models.

        Must run where an event loop runs, which the gRPC server belongs to.

        Args:
            settings: The validated configuration.
            encoder: Reads requests.
            engine: The fast tier's model, where the configuration names a GGUF.
            clock: Time.
            new_id: Returns a fresh decision id, 32 hexadecimal digits.

        Raises:
            ConfigError: Naming the setting.
        """
        clock = clock or Clock()
        authenticator = make_authenticator(settings)
        rules = decision_rules(settings, encoder)
        slow = make_slow_tier(settings, clock)
        fast = make_fast_tier(settings, clock, engine=engine)
        tiers = tuple(tier for tier in (fast, slow) if tier is not None)
        metrics = Metrics(
            version=importlib.metadata.version("fastslow"),
            encoder_revision=rules.encoder_revision,
            config_revision=rules.config_revision,
        )
        cache = make_cache(settings, encoder, clock)
        revisions = ModelRevisions(
            encoder=rules.encoder_revision,
            text_models=tuple(m for loaded in tiers for m in loaded.tier.models),
            system_prompts=tuple(p for loaded in tiers for p in loaded.tier.system_prompts),
        )
        decider = Decider(rules, clock=clock, new_id=new_id)
        answering = Tiers(
            fast=None if fast is None else fast.tier,
            slow=None if slow is None else slow.tier,
            fast_timeout_s=settings.fast_tier.timeout_s,
            output_tokens=settings.limits.output_tokens,
            over_budget=decider.slow_over_budget,
            observe=metrics.step,
        )
        pipeline = Pipeline(
            reader=Reader(
                encoder.encoder,
                decider,
                DecisionMemory(
                    ttl_s=settings.cache.decision_ttl_s,
                    max_entries=settings.cache.max_entries,
                    max_bytes=settings.cache.max_bytes,
                    clock=clock.monotonic_s,
                ),
                revisions=revisions,
                clock=clock,
            ),
            answers=AnswerCache(
                cache,
                revisions=revisions,
                semantic=settings.cache.semantic.enabled,
                observe=metrics.cache,
            ),
            ledger=DecisionLedger(
                max_entries=_LEDGER_ENTRIES,
                max_bytes=_LEDGER_BYTES,
                ttl_s=_LEDGER_TTL_S,
                clock=clock.monotonic_s,
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
        servicer = RouterServicer(
            router,
            authenticator=authenticator,
            admission=admission,
            limits=settings.limits,
            clock=clock,
        )
        calls = DrainInterceptor()
        interceptors = [
            CallInterceptor(metrics, clock=clock),
            calls,
            MalformedRequestInterceptor(),
        ]
        transport = Transport(settings.server, settings.limits, interceptors=interceptors)
        pb_grpc.add_RouterServiceServicer_to_server(servicer, transport.server)
        pb_grpc.add_CacheAdminServiceServicer_to_server(
            CacheAdminServicer(cache, authenticator=authenticator), transport.server
        )
        return cls(
            settings,
            router=router,
            transport=transport,
            servicer=servicer,
            calls=calls,
            metrics=metrics,
            encoder=encoder,
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
            await asyncio.to_thread(self._encoder.warm_up)
            await self._transport.set_serving()
        except BaseException:
            await self.stop(0.0)
            raise

    async def stop(self, drain_s: float) -> None:
        """Refuse new calls, wait for those that run, then free everything.

        Args:
            drain_s: Time that running calls get, seconds; what is left then is UNAVAILABLE.
        """
        await self._transport.set_stopping()
        await self._calls.stop(self._transport.server, drain_s)
        self._servicer.close()
        for loaded in self._tiers:
            await loaded.close()
        self._encoder.close()
        if self._endpoint is not None:
            await asyncio.to_thread(self._endpoint.close)


def _close(loaded: LoadedEncoder | TextEngine | None) -> None:
    if loaded is not None:
        loaded.close()
