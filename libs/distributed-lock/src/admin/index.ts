// A page and a JSON API for operators: docs/recipes/stuck-lock.md. Why a guard is required: docs/decisions/0025-operators-need-a-guard.md
export { LockAdminModule } from './lock-admin.module.js';
export type { LockAdminOptions } from './lock-admin.controller.js';
