// One suite of all others here: Jest imports the library anew for each suite, which takes longer than most of their tests.
import './contract.sqlite-spec.js';
import './lock-table.sqlite-spec.js';
import './replaced-files.sqlite-spec.js';
import './storm.sqlite-spec.js';
import './sweep.sqlite-spec.js';
