import { proxyAllProviders } from '../../support/proxied-providers.js';

proxyAllProviders();
await import('./locked-handlers.e2e-spec.js');
