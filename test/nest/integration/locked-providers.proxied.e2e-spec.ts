import { proxyAllProviders } from '../../support/proxied-providers.js';

proxyAllProviders();
await import('./locked-providers.e2e-spec.js');
