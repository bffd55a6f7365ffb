// What applications import. Users start with README.md, engineers with docs/architecture.md. docs/README.md lists all pages.
export { DistributedLockModule } from './distributed-lock.module.js';
export type {
  DistributedLockModuleOptions,
  DistributedLockOptionsFactory,
  LockRegistration,
} from './distributed-lock.module.js';
export { InjectLockService, getLockServiceToken } from './distributed-lock.tokens.js';

export type { LockLogLevel, LockLoggerOption } from './observe/lock.logger.js';

export { LockService } from './lock/lock.service.js';
export type { Work } from './lock/run-under.js';
export { exclusive, type KeyClaim, type Keys, permits, shared } from './lock/request/key-claim.js';
export type {
  AttachOptions,
  CallOptions,
  DetachOptions,
  ForceReleaseOptions,
  HoldSnapshot,
  ListOptions,
  Lock,
  LockInspection,
  LockPage,
  WithLockOptions,
} from './lock/lock.js';
export type { LockServiceOptions } from './lock/request/lock-options.js';
export type { LockEvent } from './lock/events/lock.events.js';
export type { LockAcquireMessage, LockHoldMessage } from './lock/core/trace-channels.js';
export {
  LockConfigurationError,
  LockDeadlockError,
  LockError,
  LockKeyError,
  LockLostError,
  LockNotHeldError,
  LockShutdownError,
  LockStoreError,
  LockWaitTimeoutError,
  isLockError,
  type LockErrorCode,
} from './port/lock.errors.js';

export {
  LockDefaults,
  type BusyFallback,
  type LockPredicate,
  type LockedOptions,
} from './locked/locked.options.js';
export { CurrentLock, Locked, LockSignal } from './locked/locked.decorator.js';
export { lockKey, type KeyValue } from './keys/key-template.js';
export { LockedInterceptor } from './locked/locked.interceptor.js';
export { toHttpException, type LockHttpOptions } from './locked/client-errors.js';
export { LockErrorFilter } from './locked/error-filters.js';

export type { LockClient, LockHolder } from './port/lock-store.js';

/** For stores of your own: see the contract suite in `nestjs-distributed-lock/testing`. */
export type {
  AcquireReply,
  AcquireRequest,
  AttachRequest,
  Busy,
  ReleaseRequest,
  ReleaseReply,
  Force,
  ForceReply,
  Grant,
  HolderEntry,
  KeyPage,
  ListRequest,
  LockSnapshot,
  LockStore,
  LockStoreContext,
  LockStoreFactory,
  Notification,
  Queued,
  Renewal,
  RenewalReply,
  Repeated,
  StoreState,
  UnreadableKey,
} from './port/lock-store.js';
export type { Chance } from './common/clock.js';
export { systemClock, type Clock } from './common/clock.js';
export { memoryStore } from './memory/store.js';
