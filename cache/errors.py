"""Name what a caller of the cache did wrong.

::

    CacheError
    ├── SettingError    a limit, TTL or threshold is out of its range (also a ValueError)
    ├── NamespaceError  a namespace without a tenant (also a ValueError)
    ├── RequestError    a request that has no canonical JSON form (also a ValueError)
    ├── EntryError      an entry that could never be found or would never expire
    │                   (also a ValueError)
    └── VectorError     an embedding of the wrong shape, dtype or norm (also a ValueError)

What a cache is expected to decline (an answer too large, a volatile prompt) is no error: it
is a returned :class:`cache.admission.StoreRefusal`. Messages name fields, limits and sizes,
never the text of a request.
"""


class CacheError(Exception):
    """Base of everything this package raises on purpose."""


class SettingError(CacheError, ValueError):
    """A limit, TTL or threshold is out of its range."""


class NamespaceError(CacheError, ValueError):
    """A namespace lacks the tenant that separates it from others."""


class RequestError(CacheError, ValueError):
    """A request has no canonical JSON form, so it has no key."""


class EntryError(CacheError, ValueError):
    """An entry could never be found or would never expire."""


class VectorError(CacheError, ValueError):
    """An embedding has the wrong shape, dtype or norm, or is not finite."""
