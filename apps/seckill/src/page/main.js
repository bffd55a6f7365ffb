import { connectControls, showCrowd, showSilence } from './controls.js';
import { showFigures } from './figures.js';
import { showGoods } from './goods.js';
import { showInstances } from './instances.js';
import { Sections } from './sections.js';
import { Timeline } from './timeline.js';

const sections = new Sections();
const timeline = new Timeline(sections);

connectControls(() => sections.clear());

const stream = new EventSource('live');
stream.addEventListener('message', ({ data }) => {
  const view = JSON.parse(data);
  sections.add(view);
  showInstances(view);
  showCrowd(view);
  showFigures(view, sections);
  showGoods(view);
  timeline.show(view);
});
stream.addEventListener('error', showSilence);
