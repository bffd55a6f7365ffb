import { Module } from '@nestjs/common';
import { CrowdModule } from '../crowd/crowd.module.js';
import { LiveLocks } from './live-locks.js';
import { LiveController } from './live.controller.js';
import { LiveRepository } from './live.repository.js';
import { LiveService } from './live.service.js';

@Module({
  imports: [CrowdModule],
  controllers: [LiveController],
  providers: [LiveLocks, LiveRepository, LiveService],
})
export class LiveModule {}
