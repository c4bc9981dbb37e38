"""The manifests of bundles among the files that were found."""

from collections.abc import Sequence
from pathlib import PurePosixPath

from whyhang.analyzer.errors import BundleError
from whyhang.analyzer.facts import Gap, Source
from whyhang.analyzer.reading import Document
from whyhang.collectors.files import bundle
from whyhang.collectors.files.archive import Store
from whyhang.collectors.files.listing import Item


class Manifests:
    """The manifests among the files that were found, each for the folder it is in."""

    def __init__(self, store: Store, items: Sequence[Item], gaps: list[Gap]) -> None:
        """Read them; ``gaps`` takes what is said of those that cannot be read."""
        self.paths: set[str] = set()
        self._entries: dict[str, tuple[int, bundle.Entry]] = {}
        for item in items:
            if PurePosixPath(item.path).name == bundle.MANIFEST:
                try:
                    self._add(item.path, store.document(item))
                except (BundleError, OSError) as error:
                    gaps.append(_gap(item.path, error))

    def _add(self, path: str, document: Document | Gap) -> None:
        if isinstance(document, Gap) or not bundle.is_manifest(path, document.head):
            return
        manifest = bundle.read_manifest(document.content())
        self.paths.add(path)
        folder = path.removesuffix(bundle.MANIFEST)
        for entry in manifest.files:
            self._entries[folder + entry.path] = (len(self._entries), entry)

    def place(self, path: str) -> int:
        """Order the files of each bundle as it lists them, the way the live run read them."""
        place, _ = self._entries.get(path, (-1, None))
        return place

    def entry(self, path: str) -> bundle.Entry | None:
        """Return what the manifest says of a file, which counts for more than its name."""
        return self._entries.get(path, (-1, None))[1]


def _gap(path: str, error: BundleError | OSError) -> Gap:
    why, remedy = (
        (error.message, error.remedy) if isinstance(error, BundleError) else (str(error), "")
    )
    return Gap(
        what=f"reading {path}",
        why=why,
        cost="the files beside it are read for themselves",
        remedy=remedy.rstrip("."),
        source=Source(file=path),
    )
