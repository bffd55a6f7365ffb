import { Global, Module } from '@nestjs/common';
import { InstanceService } from './instance.service.js';
import { InstancesRepository } from './instances.repository.js';
import { LockTraffic } from './lock-traffic.js';

@Global()
@Module({
  providers: [InstanceService, InstancesRepository, LockTraffic],
  exports: [InstanceService, InstancesRepository],
})
export class InstancesModule {}
