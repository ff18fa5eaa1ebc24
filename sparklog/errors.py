"""Every exception that sparklog raises on purpose, in one tree.

    SparklogError
    ├── InvalidInputError (ValueError)      the caller asked for something that cannot be
    │   ├── InvalidNameError                a topic, group or id that breaks the naming rule
    │   ├── InvalidConfigError              an unknown or out-of-range configuration value
    │   ├── InvalidRecordError              a record of the wrong type or shape
    │   │   └── RecordTooLargeError         a record above max.message.bytes
    │   └── UnknownPartitionError           a partition that the topic does not have
    ├── NotFoundError
    │   ├── LogNotFoundError                no log at that root
    │   ├── UnknownTopicError               no topic of that name
    │   ├── UnknownGroupError               no consumer group of that name
    │   └── TableNotFoundError              no table log at that place
    ├── TopicExistsError                    create_topic of a live topic
    ├── TopicReplacedError                  the topic was deleted, or deleted and created again
    ├── OffsetOutOfRangeError               a position before the start or past the end
    ├── GroupError                          a request that a consumer group's state does not allow
    │   ├── CommitFailedError               offsets were not committed: the partition was lost
    │   │   ├── UnknownMemberError          not, or no longer, a member of the group
    │   │   └── StaleOwnerError             the partition is another's, or owned anew since
    │   ├── OffsetsHeldError                a decided transaction holds the partition's offset
    │   ├── MemberFencedError               a newer member with the same instance id has joined
    │   ├── InconsistentStrategyError       no assignment strategy that all members have
    │   ├── GroupNotEmptyError              an admin's change of a group that has members
    │   └── GroupReplacedError              the group was deleted, or deleted and created again
    ├── ProducerFencedError                 a newer producer with the same id has started
    ├── OutOfOrderSequenceError             a gap or an overlap in a producer's sequence
    ├── SparklogTimeoutError (TimeoutError) nothing was written; trying again is safe
    │   └── BufferExhaustedError            buffer.memory stayed full for max.block.ms
    ├── OutcomeUnknownError                 the write may or may not have happened
    ├── ClientClosedError                   use after close
    ├── WakeupError                         consumer.wakeup() was called
    ├── FilesForgottenError                 a view of a table that has let go of its file list
    ├── UnsupportedError                    a feature this version of sparklog does not have
    ├── CorruptionError                     stored bytes are not what was written
    │   ├── CorruptCommitError              a table log file that is torn, missing or malformed
    │   └── CorruptSegmentError             a segment that is torn or fails its checksum
    └── StoreError                          the store refused or failed
        ├── ObjectNotFoundError             no object under that key
        ├── StoreUnavailableError           a passing failure: the same call may work later
        ├── StoreFullError                  no space left
        ├── StorePermissionError            the store denied access
        └── StoreUnsuitableError            the store lacks an atomic put-if-absent

`retriable` says that the same call may succeed later; `fatal` that the client object that raised
it can do no more work and must be replaced.
"""

from __future__ import annotations

from typing import ClassVar


class SparklogError(Exception):
    """The base of all errors here. Catch it to catch everything sparklog raises on purpose."""

    retriable: ClassVar[bool] = False
    fatal: ClassVar[bool] = False


class InvalidInputError(SparklogError, ValueError):
    """The request itself is wrong. Nothing was written; correct the request."""


class InvalidNameError(InvalidInputError):
    """A name breaks Kafka's rule. Choose one of letters, digits, '.', '_' and '-'."""


class InvalidConfigError(InvalidInputError):
    """A configuration key is unknown or its value not allowed. The message says what is."""


class InvalidRecordError(InvalidInputError):
    """A record has a wrong type or shape. Nothing of it was written."""


class RecordTooLargeError(InvalidRecordError):
    """A record is above the topic's max.message.bytes. Split it, or raise the limit."""


class UnknownPartitionError(InvalidInputError):
    """The topic has no such partition. Use a lower number, or add partitions."""


class NotFoundError(SparklogError):
    """Something named does not exist."""


class LogNotFoundError(NotFoundError):
    """There is no log at that root. Check the path, or let connect() create it."""


class UnknownTopicError(NotFoundError):
    """No topic of that name. Create it, or correct the name."""


class TableNotFoundError(NotFoundError):
    """No table log at that place; the layer above says what is missing in its own words."""


class TopicExistsError(SparklogError):
    """The topic exists already. Use it, or delete it first."""


class TopicReplacedError(SparklogError):
    """The topic this client opened is gone: deleted, or deleted and created again.

    Open a new client if the new topic is what you want.
    """

    fatal = True


class OffsetOutOfRangeError(SparklogError):
    """A position is before the start or past the end, and auto.offset.reset is none. Seek."""


class UnknownGroupError(NotFoundError):
    """No consumer group of that name. Correct the name; a group begins with its first member."""


class GroupError(SparklogError):
    """A consumer group's state does not allow the request. Nothing was changed."""


class CommitFailedError(GroupError):
    """Offsets were not committed, because the partition is no longer this member's.

    Whoever owns it now goes on from the last commit. Do not commit again: poll, which joins again
    and says by the rebalance listener what was lost.
    """


class UnknownMemberError(CommitFailedError):
    """The member is not in the group: it left, or was silent for session.timeout.ms."""


class StaleOwnerError(CommitFailedError):
    """The partition has another owner now, or this member owns it anew, since a later generation.

    Only offsets of records that were read under the present ownership may be committed.
    """


class OffsetsHeldError(GroupError):
    """A decided transaction that is not rolled forward yet holds the partition's offset.

    Try again: whoever meets it rolls it forward.
    """

    retriable = True


class MemberFencedError(GroupError):
    """A newer member with the same group.instance.id has taken this one's place. Close this one."""

    fatal = True


class InconsistentStrategyError(GroupError):
    """No partition.assignment.strategy that every member has. Give this member one of theirs."""


class GroupNotEmptyError(GroupError):
    """The group has members, so an admin may not change it. Close them, or wait until they go."""


class GroupReplacedError(GroupError):
    """The group was deleted, or deleted and created again, since this client opened it.

    Poll again to join the new one; what was read for the old one is not committed.
    """


class ProducerFencedError(SparklogError):
    """A newer producer with the same id has started. Close this one."""

    fatal = True


class OutOfOrderSequenceError(SparklogError):
    """A producer's records would leave a gap or overlap with what stands. Open it anew."""

    fatal = True


class SparklogTimeoutError(SparklogError, TimeoutError):
    """Time ran out before anything was written. Trying again duplicates nothing."""

    retriable = True


class BufferExhaustedError(SparklogTimeoutError):
    """buffer.memory stayed full for max.block.ms: the store is slower than the sender."""


class OutcomeUnknownError(SparklogError):
    """The store did not say whether a commit happened, and it could not be found out in time.

    The records may or may not become visible. No file was deleted. Sending again may duplicate
    them, except through the same producer, which settles the open commit first.
    """

    def __init__(self, message: str, version: int = -1) -> None:
        """Remember the version that is in doubt."""
        super().__init__(message)
        self.version = version


class ClientClosedError(SparklogError):
    """The client was closed. Open a new one."""


class WakeupError(SparklogError):
    """wakeup() interrupted a blocking call. The consumer is still good."""


class FilesForgottenError(SparklogError):
    """This view of a table does not know its files any more. Open the table anew.

    Too many changes came, or clean-up took the checkpoint that named the files.
    """

    retriable = True


class UnsupportedError(SparklogError):
    """This version of sparklog cannot do that. The message names the way out."""


class CorruptionError(SparklogError):
    """Stored bytes are not what was written. Reading stops; nothing is skipped."""


class CorruptCommitError(CorruptionError):
    """A file of a table log is torn, missing or malformed. The message names file and version."""


class CorruptSegmentError(CorruptionError):
    """A segment is missing, truncated or fails its checksum. The message names it."""


class StoreError(SparklogError):
    """The store refused or failed."""


class ObjectNotFoundError(StoreError):
    """No object under that key."""


class StoreUnavailableError(StoreError):
    """A passing failure of the store. The same call may work later."""

    retriable = True


class StoreFullError(StoreError):
    """No space left on the store. Nothing was written; free space and try again."""

    retriable = True


class StorePermissionError(StoreError):
    """The store denied access. Check credentials and policies."""


class StoreUnsuitableError(StoreError):
    """The store has no atomic put-if-absent, so a log on it could lose records. Use another."""
