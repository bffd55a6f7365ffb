import { proxyAllProviders } from '../../../support/proxied-providers.js';

proxyAllProviders();
await import('./interceptors.e2e-spec.js');
