// Serves the site as it was built, and says where: npm run docs -- preview
import { serve } from 'vitepress';
import { fromRoot } from './places.mjs';

await serve({ root: fromRoot('tools/site') });
