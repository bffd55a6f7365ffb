/** No fault from outside: what the traffic itself does. */
export const LOADS = [
  { name: 'calm', says: 'nothing: what is seen without any fault' },
  {
    name: 'aborts',
    says: 'callers abort a third of their calls within 100 ms',
    traffic: { abortRate: 0.33, callersPerKey: 4 },
  },
  {
    name: 'crowd',
    says: '2000 waiters on 2 keys, in 4 processes',
    traffic: { apps: 4, keys: 2, callersPerKey: 250, shortMs: 2, waitMs: 10_000 },
  },
  {
    name: 'clock-rate',
    says: "the processes' clocks run 0.8 % fast, 0.8 % slow and true",
    traffic: { clockRates: [1.008, 0.992, 1] },
  },
];
