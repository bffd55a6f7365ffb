import { proxyAllProviders } from '../../../support/proxied-providers.js';

proxyAllProviders();
await import('./handlers.e2e-spec.js');
