import { proxyAllProviders } from '../../../support/proxied-providers.js';

proxyAllProviders();
await import('./methods.e2e-spec.js');
