import { describeWith } from '../support/describe-with.js';
import { describeCrowd } from '../support/crowd.contract.js';
import { PATIENT } from '../support/patient.js';
import { ownEtcd } from './support/own-etcd.js';

describeWith('etcd')('sixteen clients on one key', () => {
  const etcd = ownEtcd();
  describeCrowd(
    () => etcd.open(etcd.url, PATIENT),
    () => etcd.key,
    { fair: true },
  );
});
