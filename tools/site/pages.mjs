/**
 * The sidebar: groups of pages, each by its file in the repository and the name it has there. Decisions need no line.
 * A test compares the table with the files of docs/.
 *
 * @type {typeof import('./index.mjs').SIDEBAR}
 */
export const SIDEBAR = {
  root: {
    Start: {
      'README.md': 'What it is',
      'docs/first-lock.md': 'Your first lock',
      'docs/flash-sale.md': 'See it work: a flash sale',
      'docs/when-not-to-lock.md': 'When not to lock',
      'docs/glossary.md': 'Glossary',
    },
    'Guides by task': {
      'docs/recipes.md': 'I want to …',
      'docs/recipes/setup.md': 'Set it up',
      'docs/recipes/once.md': 'Run it once: cron, double submit',
      'docs/recipes/limits.md': 'Several keys, limits',
      'docs/recipes/workers.md': 'Workers, leaders, lost locks',
      'docs/recipes/sql.md': 'Write to a database; fencing tokens',
      'docs/recipes/orms.md': 'Transactions in an ORM',
      'docs/recipes/http-answers.md': 'Answers, streams, files',
      'docs/recipes/tests.md': 'Test your app',
      'docs/recipes/stuck-lock.md': 'A stuck lock',
    },
    Concepts: {
      'docs/guarantees.md': 'Guarantees',
      'docs/architecture.md': 'Architecture',
      'docs/keys.md': 'Keys',
      'docs/family.md': 'Read-write, semaphore, several keys',
      'docs/nested-calls.md': 'Nested calls, shared queues',
    },
    Stores: {
      'docs/stores.md': 'Which store?',
      'docs/redis-servers.md': 'Which Redis server?',
      'docs/quorum.md': 'A quorum of servers (Redlock)',
      'docs/document-stores.md': 'How a store keeps a lock',
      'docs/your-own-store.md': 'A store of your own',
    },
    Operations: {
      'docs/production.md': 'Going to production',
      'docs/troubleshooting.md': 'Troubleshooting',
      '.github/SECURITY.md': 'Security',
    },
    Reference: {
      'docs/api.md': 'API',
      'docs/api-stores.md': 'API: stores',
      'docs/api-guard.md': 'API: fencing tokens',
      'docs/api-once.md': 'API: run once',
      'docs/api-observe.md': 'API: metrics, health',
      'docs/api-testing.md': 'API: tests of an app',
      'docs/api-store-authors.md': 'API: authors of stores',
      'CHANGELOG.md': 'Changelog',
    },
    'Beside others': {
      'docs/compare.md': 'Compared, and coming from another',
      'docs/redisson.md': 'Beside Redisson (Java)',
    },
    Trust: {
      'docs/ten-minutes.md': 'Ten minutes: five claims, shown',
      'docs/faults.md': 'Under faults',
      'docs/simulation.md': 'Deterministic simulation',
      'docs/benchmarks.md': 'Benchmarks',
      'verification/TRACK-RECORD.md': 'Bugs that tests found',
    },
    'How it is made': {
      'docs/decisions/README.md': 'Decisions',
      'CONTRIBUTING.md': 'Contributing',
      'docs/release.md': 'Release',
      'docs/README.md': 'All pages',
    },
  },
  zh: {
    开始: {
      'docs/zh/README.md': '介绍',
      'docs/zh/first-lock.md': '第一把锁',
      'docs/zh/flash-sale.md': '看它运行：秒杀',
    },
    按任务: {
      'docs/zh/recipes.md': '我想……',
      'docs/zh/recipes/setup.md': '配置模块',
      'docs/zh/recipes/once.md': '只执行一次',
      'docs/zh/recipes/limits.md': '多个键、限制并发',
      'docs/zh/recipes/workers.md': 'Worker、选主、锁丢失',
      'docs/zh/recipes/sql.md': '锁与数据；围栏令牌',
      'docs/zh/recipes/orms.md': 'ORM 里的事务',
      'docs/zh/recipes/http-answers.md': '答复、流与文件',
      'docs/zh/recipes/tests.md': '测试你的应用',
      'docs/zh/recipes/stuck-lock.md': '卡住的锁',
    },
  },
};
